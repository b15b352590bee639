package sqlite

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/journal"
)

// Short journals. A process that makes no call and ends in the commit that it began in is one row, with its journal in it:
// otherwise its entries would be most of what such a commit writes, on pages of their own. What is appended about it later
// (that a human has decided about its files, say) has rows in the table entries, as everything else has.

// Bounds of a journal in a row: what is longer gains nothing. maxShortEntries must not become less, since readers look no further into a row.
const (
	maxShortEntries = 8
	maxShortBytes   = 1 << 10
)

// shortEntry is an entry in a row: a JSON array of these, in this order, without what is empty at its end. Its seq is its place
// in the journal.
type shortEntry struct {
	kind   agentkernel.EntryKind
	at     int64           // microseconds since 1970
	data   json.RawMessage // null: there are none
	stream string
	note   string
	err    *agentkernel.Error
}

func (e *shortEntry) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&e.kind, &e.at, &e.data, &e.stream, &e.note, &e.err})
}

// shortJournal gives the text of a whole journal for its process's row, "" if it has to be rows of its own.
func shortJournal(batches []*agentkernel.Batch) (string, error) {
	n, size := 0, 0
	for _, b := range batches {
		for i := range b.Entries {
			e := &b.Entries[i]
			if n, size = n+1, size+len(e.Data); n > maxShortEntries || size > maxShortBytes || !short(e) {
				return "", nil
			}
		}
	}
	if n == 0 || !ended(*batches[len(batches)-1]) {
		return "", nil
	}
	text := make([]byte, 0, size+n*48)
	for _, b := range batches {
		for i := range b.Entries {
			text = append(text, ',')
			var err error
			if text, err = appendShort(text, &b.Entries[i]); err != nil {
				return "", err
			}
		}
	}
	if len(text) >= maxShortBytes {
		return "", nil
	}
	text[0] = '['
	return string(append(text, ']')), nil
}

// short says whether nothing of an entry would be lost, or changed, in a row.
func short(e *agentkernel.Entry) bool {
	return e.Kind != agentkernel.EntryCall && isName(string(e.Kind)) && e.Call == 0 && e.Op == "" && e.Effect == "" && !e.Async && len(e.Args) == 0 && !e.Done &&
		len(e.Data) < threshold(e.Kind) && (len(e.Data) == 0 || isValue(e.Data)) && utf8.ValidString(e.Stream) && utf8.ValidString(e.Note)
}

// isValue says whether data is JSON with nothing around it, and not null: who reads it out of other JSON loses the white space
// at its ends, and null stands for no data.
func isValue(data []byte) bool {
	return data[0] > ' ' && data[len(data)-1] > ' ' && string(data) != "null" && json.Valid(data)
}

func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// appendShort writes an entry as shortEntry reads it. The data stays as it is, byte for byte.
func appendShort(text []byte, e *agentkernel.Entry) ([]byte, error) {
	text = append(append(append(text, `["`...), e.Kind...), `",`...)
	text = strconv.AppendInt(text, e.At.UnixMicro(), 10)
	end := len(text)
	text = append(text, ',')
	if len(e.Data) > 0 {
		text = append(text, e.Data...)
		end = len(text)
	} else {
		text = append(text, "null"...)
	}
	for _, s := range [...]string{e.Stream, e.Note} {
		text = append(text, ',')
		text = journal.AppendString(text, s)
		if s != "" {
			end = len(text)
		}
	}
	if e.Err != nil {
		failure, err := plainJSON(e.Err)
		if err != nil {
			return nil, err
		}
		text = append(append(text, ','), failure...)
		end = len(text)
	}
	return append(text[:end], ']'), nil
}

// readShort gives the entries of a journal in a row, from seq on.
func readShort(text string, pid agentkernel.PID, from int64) ([]agentkernel.Entry, error) {
	list, err := parseShort(text, pid)
	if err != nil {
		return nil, err
	}
	var found []agentkernel.Entry
	for i, s := range list {
		if seq := int64(i + 1); seq >= from {
			e := agentkernel.Entry{PID: pid, Seq: seq, Kind: s.kind, At: microTime(s.at), Data: s.data, Err: s.err, Stream: s.stream, Note: s.note}
			e.ReadNote()
			found = append(found, e)
		}
	}
	return found, nil
}

func parseShort(text string, pid agentkernel.PID) (list []shortEntry, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the journal in the row of process %d cannot be read: %w", pid, err).WithPID(pid)
	}
	return list, nil
}

// shortLength counts the entries of a journal in a row. One that is broken does not keep its process, and all others, from being pruned.
const shortLength = "CASE WHEN json_valid(journal) THEN json_array_length(journal) END"

const selectShort = "SELECT journal FROM processes WHERE pid = ?"

// short gives the text of the journal in a process's row, "" if there is none.
func (c *conn) short(pid agentkernel.PID) (string, error) {
	v, found, err := c.one(selectShort, int64(pid))
	if err != nil || !found {
		return "", err
	}
	return v.text(0), nil
}
