package process

import (
	"errors"
	"unicode/utf8"

	"agentkernel"
)

var streams = [2]string{"stdout", "stderr"}

// output turns the bytes of two streams into text, up to a limit. A character that two pieces share is put together;
// what is not UTF-8 becomes U+FFFD, and a line at the end says so.
type output struct {
	emit func(stream, text string)
	room int64
	half [2][]byte // the beginning of a character
	full bool      // there was more than room for
	lost bool      // not all was UTF-8
}

// write takes a piece of a stream; errOutput when there was more than there is room for.
func (o *output) write(stream int, data []byte) error {
	if half := o.half[stream]; len(half) > 0 {
		data = append(half, data...)
		o.half[stream] = nil
	}
	whole := len(data)
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if c := data[len(data)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-back:]) {
				whole = len(data) - back
			}
			break
		}
	}
	if whole < len(data) {
		o.half[stream] = append([]byte(nil), data[whole:]...)
	}
	return o.text(stream, data[:whole])
}

// end gives what is left of characters that never were completed.
func (o *output) end() error {
	for stream, half := range o.half {
		o.half[stream] = nil
		if err := o.text(stream, half); err != nil {
			return err
		}
	}
	// At the end, since a replay may get the output in other pieces; and never so that it is too much.
	if told := agentkernel.NotText; o.lost && int64(len(told)) <= o.room {
		o.lost = false
		return o.text(1, []byte(told))
	}
	return nil
}

var errOutput = errors.New("it printed too much")

func (o *output) text(stream int, data []byte) error {
	if o.full {
		return errOutput
	}
	text := validText(data)
	o.lost = o.lost || !utf8.Valid(data)
	if int64(len(text)) > o.room {
		cut := int(max(o.room, 0))
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text, o.full = text[:cut], true
	}
	o.room -= int64(len(text))
	if text != "" && o.emit != nil {
		o.emit(streams[stream], text)
	}
	if o.full {
		return errOutput
	}
	return nil
}

// validText replaces each byte that is not UTF-8, as a decoder does, and not whole runs of them.
func validText(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	out := make([]rune, 0, len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		out = append(out, r)
		data = data[n:]
	}
	return string(out)
}
