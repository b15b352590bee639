package workspace

import "strings"

// gitSetting is one line of a config of git. key is in lower case and has the section before it, without its subsection:
// "filter.clean" for [filter "f"] clean.
type gitSetting struct{ key, value string }

// gitSettings reads a config as git does (git-config(1), "Syntax"), and passes over what git would refuse.
func gitSettings(text string) (list []gitSetting) {
	r := &gitReader{rest: strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")}
	for r.rest != "" {
		switch c := r.rest[0]; {
		case c == ' ' || c == '\t' || c == '\n':
			r.rest = r.rest[1:]
		case c == '[':
			r.header()
		case c == '#' || c == ';':
			r.line()
		default:
			if s := r.setting(); r.section != "" && s.key != "" {
				list = append(list, gitSetting{key: r.section + "." + s.key, value: s.value})
			}
		}
	}
	return list
}

type gitReader struct{ rest, section string }

// line takes the rest of a line.
func (r *gitReader) line() (text string) {
	text, r.rest, _ = strings.Cut(r.rest, "\n")
	return text
}

// header takes [section], [section.subsection] or [section "subsection"], which another setting may follow on its line.
func (r *gitReader) header() {
	r.section = ""
	quoted := false
	for i := 1; i < len(r.rest) && r.rest[i] != '\n'; i++ {
		switch c := r.rest[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name := r.rest[1:i]
			if at := strings.IndexAny(name, ". \t\""); at >= 0 {
				name = name[:at]
			}
			r.section, r.rest = strings.ToLower(name), r.rest[i+1:]
			return
		}
	}
	r.line()
}

func (r *gitReader) setting() (s gitSetting) {
	end := strings.IndexAny(r.rest, "=\n#;")
	if end < 0 {
		end = len(r.rest)
	}
	s.key = strings.ToLower(strings.TrimSpace(r.rest[:end]))
	if r.rest = r.rest[end:]; strings.HasPrefix(r.rest, "=") {
		r.rest = r.rest[1:]
		s.value = r.value()
	}
	return s
}

// value takes a value to the end of its line, or of those that it goes on in.
func (r *gitReader) value() string {
	var b strings.Builder
	quoted, i := false, 0
	for ; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '\n':
			r.rest = r.rest[i:]
			return strings.TrimSpace(b.String())
		case c == '\\' && i+1 < len(r.rest):
			i++
			switch e := r.rest[i]; e {
			case '\n':
			case 'n', 't', 'b':
				b.WriteByte(' ')
			default:
				b.WriteByte(e)
			}
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			r.rest = r.rest[i:]
			r.line()
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	r.rest = ""
	return strings.TrimSpace(b.String())
}
