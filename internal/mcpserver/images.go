package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Images in the value of a program go to the model as images. What is one is decided by its bytes, never by what a
// tool calls it. Notebooks of the Python SDK go by the same rule, so programs need no call for it.

// What goes back of the images of one program; clients and models refuse more.
const (
	maxImages     = 8
	maxImageBytes = 4 << 20 // all together
)

// image is one image for the model.
type image struct {
	mime string
	data []byte
}

// signatures are how files begin that models can see.
var signatures = []struct{ magic, mime string }{
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
}

// imageType says which image data is; "": none.
func imageType(data []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(data, []byte(s.magic)) {
			return s.mime
		}
	}
	if len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

// Bytes in a value (docs/values.md). Inside a string the quotes would be escaped, so this is never text.
const (
	bytesBegin = `{"$bytes":"`
	bytesEnd   = `"}`
)

// extractImages takes the images out of a value in its JSON form; a text stands in the place of each. uri is where
// the whole value is to be had.
func extractImages(value json.RawMessage, uri string) (json.RawMessage, []image) {
	if !bytes.Contains(value, []byte(`"$bytes"`)) {
		return value, nil
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return value, nil
	}
	rest := b.Bytes()
	var images []image
	room := maxImageBytes
	out := make([]byte, 0, min(len(rest), maxResult))
	for {
		at := bytes.Index(rest, []byte(bytesBegin))
		if at < 0 {
			return append(out, rest...), images
		}
		text := rest[at+len(bytesBegin):]
		end := bytes.IndexByte(text, '"')
		if end < 0 || !bytes.HasPrefix(text[end:], []byte(bytesEnd)) {
			return append(out, rest...), images
		}
		out = append(out, rest[:at]...)
		next := text[end+len(bytesEnd):]
		data, err := base64.StdEncoding.DecodeString(string(text[:end]))
		mime := imageType(data)
		switch {
		case err != nil || mime == "":
			out = append(out, rest[at:len(rest)-len(next)]...)
		case len(images) == maxImages || len(data) > room:
			out = append(out, quoted(fmt.Sprintf("[%s, %d bytes, too many or too large to show: %s]", mime, len(data), uri))...)
		default:
			room -= len(data)
			images = append(images, image{mime, data})
			out = append(out, quoted(fmt.Sprintf("[image %d: %s, %d bytes]", len(images), mime, len(data)))...)
		}
		rest = next
	}
}
