package main

import (
	"encoding/json"
	"unicode/utf8"

	"agentkernel"
)

const (
	leanPage = 500      // entries that are read at a time, and shortened before the next
	large    = 32 << 10 // bytes of arguments from which its texts are shortened
	leanText = 2 << 10  // bytes that are left of each
)

// leanJournal is the journal of a process for whoever shows or explains it. Of large arguments the texts are shortened: a journal may have more
// of them than this command should hold. Results stay, whose sizes are shown.
func (a *app) leanJournal(k agentkernel.Kernel, pid agentkernel.PID) (list []agentkernel.Entry, err error) {
	for from := int64(1); ; {
		page, err := k.Journal(a.ctx, pid, from, leanPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			e := &page[i]
			e.Args, from = lean(e.Args), e.Seq+1
		}
		if list = append(list, page...); len(page) < leanPage {
			return list, nil
		}
	}
}

// lean is JSON whose texts are no longer than leanText, if it is large.
func lean(raw json.RawMessage) json.RawMessage {
	if len(raw) <= large {
		return raw
	}
	out := make([]byte, 0, 2*leanText)
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			out = append(out, raw[i])
			i++
			continue
		}
		end := endOfText(raw, i)
		if end-i <= leanText {
			out = append(out, raw[i:end]...)
		} else {
			out = append(append(out, cutText(raw[i:end])...), `…"`...)
		}
		i = end
	}
	return out
}

// endOfText is where the text of JSON ends that begins at i.
func endOfText(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// cutText is the beginning of a text of JSON, from its quote on, which ends in no escape and in no character.
func cutText(text []byte) []byte {
	end := 1
	for end < leanText {
		var n int
		switch {
		case text[end] == '\\' && text[end+1] == 'u':
			n = 6
		case text[end] == '\\':
			n = 2
		default:
			_, n = utf8.DecodeRune(text[end:])
		}
		end += n
	}
	return text[:min(end, len(text)-1)]
}
