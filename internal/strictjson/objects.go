package strictjson

// AreObjects says whether valid JSON is a list of at most so many objects. It takes no memory.
func AreObjects(raw []byte, most int) bool {
	depth, n := 0, 0
	begins := false // an item does here
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case begins && c == ']' && n == 0:
			return true
		case begins && (c != '{' || n == most):
			return false
		case begins:
			begins, n = false, n+1
		}
		switch c {
		case '[', '{':
			if depth++; depth == 1 {
				if begins = c == '['; !begins {
					return false
				}
			}
		case ']', '}':
			depth--
		case ',':
			begins = depth == 1
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return n > 0
}
