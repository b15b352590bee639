package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"agentkernel"
)

// pin are the hashes of a tool as it was accepted, part by part, so that a change can be named.
type pin struct {
	Description string `json:"description"`
	Input       string `json:"input"`
	Output      string `json:"output"`
	Effect      string `json:"effect"`
	// Records of older versions have no hash of the following.
	Title string `json:"title,omitempty"`
	Name  string `json:"name,omitempty"` // as programs import it
}

func pinOf(t *agentkernel.Tool) pin {
	return pin{Description: hash([]byte(t.Description)), Input: hash(compact(t.InputSchema)), Output: hash(compact(t.OutputSchema)),
		Effect: string(t.Effect), Title: hash([]byte(t.Title)), Name: hash([]byte(t.PythonName))}
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// compact takes white space out of a schema, which means nothing.
func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// differs names the parts that are not as accepted.
func (p pin) differs(now pin) []string {
	var what []string
	for _, part := range []struct {
		name     string
		was, now string
		known    bool
	}{{"effect", p.Effect, now.Effect, true}, {"name", p.Name, now.Name, p.Name != ""}, {"title", p.Title, now.Title, p.Title != ""},
		{"description", p.Description, now.Description, true}, {"input_schema", p.Input, now.Input, true},
		{"output_schema", p.Output, now.Output, true}} {
		if part.known && part.was != part.now {
			what = append(what, part.name)
		}
	}
	return what
}

// wording is a tool in words, so that a change can be shown.
type wording struct {
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
}

// maxWording bounds the words of one tool that are kept, in bytes. Of a longer one the hashes alone are.
const maxWording = 64 << 10

func wordingOf(t *agentkernel.Tool) *wording {
	if len(t.Title)+len(t.Description)+len(t.InputSchema)+len(t.OutputSchema) > maxWording {
		return nil
	}
	w := &wording{Title: t.Title, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema}
	for _, schema := range []*json.RawMessage{&w.Input, &w.Output} {
		if !json.Valid(*schema) {
			*schema = nil
		}
	}
	return w
}

func (w *wording) size() int {
	if w == nil {
		return 0
	}
	raw, err := json.Marshal(w) // which may be six times as long as the words
	if err != nil {
		return maxWords
	}
	return len(raw)
}

// part gives one part of the words, in lines.
func (w *wording) part(name string) string {
	switch name {
	case "title":
		return w.Title
	case "description":
		return w.Description
	case "input_schema":
		return indented(w.Input)
	}
	return indented(w.Output)
}

func indented(schema json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, schema, "", "  ") != nil {
		return string(schema)
	}
	return b.String()
}

// diff shows the parts that have changed: what was accepted with a minus before it, what is there now with a plus.
func (k *known) diff(what []string) string {
	var b strings.Builder
	for _, part := range what {
		switch {
		case part == "effect" && k.New:
			fmt.Fprintf(&b, "the server did not have it when its tools were accepted; it says that it is %s\n", k.now.Effect)
		case part == "effect":
			fmt.Fprintf(&b, "effect: %s -> %s\n", k.Pin.Effect, k.now.Effect)
		case part == "name" && k.Took != "":
			fmt.Fprintf(&b, "name: programs imported another tool of the server, %s, by this name\n", strings.Map(visible, k.Took))
		case part == "name":
			b.WriteString("name: programs imported it by another name\n")
		case k.Words == nil || k.said == nil:
			fmt.Fprintf(&b, "%s: changed; its words were not kept\n", part)
		default:
			b.WriteString(part + ":\n" + lineDiff(k.Words.part(part), k.said.part(part)))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const (
	maxDiffLines = 20  // of each side
	maxDiffLine  = 300 // bytes
	diffContext  = 40  // bytes of a long line that are the same, shown on either side of the difference
)

// lineDiff shows what lies between the first and the last line that differ.
func lineDiff(was, now string) string {
	a, b := strings.Split(was, "\n"), strings.Split(now, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 1 && len(b) == 1 {
		a[0], b[0] = middles(a[0], b[0])
	}
	return marked("- ", a) + marked("+ ", b)
}

// middles cuts what two long lines have in common at their ends.
func middles(a, b string) (string, string) {
	from, common := 0, min(len(a), len(b))
	for from < common && a[from] == b[from] {
		from++
	}
	end := 0
	for end < common-from && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	from, end = max(0, from-diffContext), max(0, end-diffContext)
	cut := func(s string) string {
		mid := strings.ToValidUTF8(s[from:len(s)-end], "")
		if from > 0 {
			mid = "…" + mid
		}
		if end > 0 {
			mid += "…"
		}
		return mid
	}
	return cut(a), cut(b)
}

func marked(mark string, lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i == maxDiffLines {
			fmt.Fprintf(&b, "%s… %d more lines\n", mark, len(lines)-i)
			break
		}
		if len(line) > maxDiffLine {
			line = strings.ToValidUTF8(line[:maxDiffLine], "") + fmt.Sprintf("… %d more bytes", len(line)-maxDiffLine)
		}
		b.WriteString(mark + strings.Map(visible, line) + "\n")
	}
	return b.String()
}

// visible keeps what a server wrote from moving the reader's cursor, or from running backwards.
func visible(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
