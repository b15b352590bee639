package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestSpellings(t *testing.T) {
	values := []string{"wJalrXUtnFEMI/K7MDENG/bPxRfi+YEX", `pass"word<x>&42`, `back\slash\\twice`, "sp ace\u00e9\U0001f511key%41", "plain-token-123"}
	for _, value := range values {
		var s Set
		s.Add(value, "[m]")
		quote := func(v string) string { b, _ := json.Marshal(v); return string(b[1 : len(b)-1]) }
		all := func(form string) string {
			var out strings.Builder
			for _, r := range value {
				switch {
				case r > 0xffff:
					out.WriteString(`\ud83d\udd11`)
				default:
					out.WriteString(`\u` + strings.Repeat("0", 4-len(strings.TrimLeft(hexOf(r), "0"))) + strings.TrimLeft(hexOf(r), "0"))
				}
			}
			if form == "upper" {
				return strings.ReplaceAll(strings.ToUpper(out.String()), `\U`, `\u`)
			}
			return out.String()
		}
		for name, text := range map[string]string{
			"itself": value, "JSON": quote(value), "JSON in JSON": quote(quote(value)), `\/`: strings.ReplaceAll(quote(value), "/", `\/`), `\u002f`: strings.ReplaceAll(quote(value), "/", `\u002f`),
			"numbers": all(""), "upper numbers": all("upper"),
			"query": url.QueryEscape(value), "path": url.PathEscape(value), "lower-case hex": lowerHex(url.QueryEscape(value)), "twice": url.QueryEscape(url.QueryEscape(value)),
			"HTML": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "/", "&#x2F;").Replace(value),
		} {
			if got := s.String("<" + text + ">"); got != "<[m]>" {
				t.Errorf("%q as %s, %q: %q", value, name, text, got)
			}
		}
		for _, user := range []string{"", "u", "us", "usr", "user:", "x:y:"} {
			for _, end := range []string{"", ":", ":x", "-rest of it"} {
				for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
					text := e.EncodeToString([]byte(user + value + end))
					for _, text := range []string{text, url.QueryEscape(text), strings.ReplaceAll(text, "/", `\/`)} {
						got := s.String("Basic " + text)
						if n := strings.Count(got, "[m]"); n != 1 || len(got) > len("Basic [m]")+len(e.EncodeToString([]byte(user)))+len(url.QueryEscape(e.EncodeToString([]byte(end))))+6 {
							t.Errorf("%q in %q: %q", value, text, got)
						}
					}
				}
			}
		}
	}
}

// Base64 comes in lines, as of base64(1), MIME and PEM, and what holds them may be escaped once more.
func TestBase64InLines(t *testing.T) {
	const value = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	var s Set
	s.Add(value, "[m]")
	quote := func(v string) string { b, _ := json.Marshal(v); return string(b[1 : len(b)-1]) }
	bare := strings.NewReplacer("\\", "", "\n", "", "\r", "", "%0A", "", "%0D", "", " ", "", "[m]", "")
	for _, width := range []int{1, 2, 3, 4, 5, 19, 64, 76} {
		for _, end := range []string{"\n", "\r\n", "\n    "} {
			for before := range 80 {
				whole := strings.Repeat("\x00", before) + value + strings.Repeat("\x00", 80)
				var lines []string
				for rest := base64.StdEncoding.EncodeToString([]byte(whole)); rest != ""; {
					n := min(width, len(rest))
					lines, rest = append(lines, rest[:n]), rest[n:]
				}
				text := strings.Join(lines, end)
				for name, text := range map[string]string{"lines": text, "JSON": quote(text), "JSON in JSON": quote(quote(text)), "URL": strings.ReplaceAll(url.QueryEscape(text), "+", " ")} {
					got := s.String(text)
					left := bare.Replace(strings.NewReplacer(`\r`, "", `\n`, "").Replace(got))
					if strings.Count(got, "[m]") != 1 || strings.Trim(left, "A=%3D") != "" {
						t.Fatalf("lines of %d behind %d, %s: %q\n%q", width, before, name, text, got)
					}
				}
			}
		}
	}
	for _, text := range []string{"Z2hw\n\nX2Fi", "Z2hwX2Fi\nY2Rl", "\n", `\n`, "%0A"} {
		if got := s.String(text); got != text {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Whatever stands around a secret and wherever lines end, its base64 does not stay.
func FuzzBase64InLines(f *testing.F) {
	f.Add([]byte("user:"), []byte(":x"), uint8(19), false, uint8(0))
	f.Add([]byte(`{"env": {`), []byte("\xff\n"), uint8(76), true, uint8(2))
	f.Fuzz(func(t *testing.T, before, after []byte, width uint8, cr bool, quotes uint8) {
		const value = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
		var s Set
		s.Add(value, "[m]")
		end := map[bool]string{false: "\n", true: "\r\n"}[cr]
		var lines []string
		for rest := base64.StdEncoding.EncodeToString(slices.Concat(before, []byte(value), after)); rest != ""; {
			n := min(int(width%100)+1, len(rest))
			lines, rest = append(lines, rest[:n]), rest[n:]
		}
		text := strings.Join(lines, end)
		for range quotes % 4 {
			b, _ := json.Marshal(text)
			text = string(b[1 : len(b)-1])
		}
		got := s.String(text)
		if !bytes.Contains(before, []byte(value)) && !bytes.Contains(after, []byte(value)) && strings.Count(got, "[m]") != 1 {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func hexOf(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

func lowerHex(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i:], strings.ToLower(s[i:i+3]))
		}
	}
	return string(b)
}

func TestWhatIsNoSecretStays(t *testing.T) {
	var s Set
	text := "nothing is \\ here %2 & there &#; \\u12 %"
	if s.String(text) != text {
		t.Error("an empty set changes a text")
	}
	s.Add("sesame-open", "[m]")
	s.Add("sesame-open-wide", "[w]")
	for in, want := range map[string]string{text: text, "sesame-ope": "sesame-ope", "sesame-open-wid": "[m]-wid", "sesame-open-wide": "[w]", "": ""} {
		if got := s.String(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Many secrets do not make it slow, either.
func BenchmarkManySecrets(b *testing.B) {
	var s Set
	for i := range 30 {
		s.Add("wJalrXUtnFEMI/K7MDENG"+string(rune('a'+i))+"/bPxRfi+YEX", "[m]")
	}
	text := []byte(strings.Repeat(`{"name": "value \"quoted\" & more", "url": "https:\/\/example.org\/%2f"}`, 15000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Bytes(text)
	}
}

// No text of a server makes it slow.
func BenchmarkBytes(b *testing.B) {
	for name, unit := range map[string]string{"ordinary": `{"name": "value & more", "url": "https:\/\/example.org\/%2f"}`, "backslashes": `\`, "percent": "%25", "digits": "25", "ampersands": "&",
		"line breaks": "\n", "indented": "XCV\n      ", "escaped breaks": `XCV\n`, "breaks with many backslashes": `XCV\n` + strings.Repeat(`\`, 60) + "n"} {
		b.Run(name, func(b *testing.B) {
			var s Set
			s.Add(`\%wJalrXUtnFEMI/K7MDENG/bPxRfi+YEX`, "[m]")
			text := []byte("%" + strings.Repeat(unit, 1000000/len(unit)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Bytes(text)
			}
		})
	}
}
