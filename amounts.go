package agentkernel

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Amounts are what calls use up, by name: nano-dollars, tokens, requests. What a name means is a matter of the calls.
type Amounts map[string]int64

// Plus is the sum. Neither of the two is changed, and a sum that is too large stays at the largest number.
func (a Amounts) Plus(b Amounts) Amounts {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(a)
	if sum == nil {
		sum = Amounts{}
	}
	for name, n := range b {
		if n > math.MaxInt64-max(sum[name], 0) {
			sum[name] = math.MaxInt64
			continue
		}
		sum[name] += n
	}
	return sum
}

// Names are the names, sorted.
func (a Amounts) Names() []string {
	names := slices.AppendSeq(make([]string, 0, len(a)), maps.Keys(a))
	slices.Sort(names)
	return names
}

// String is how people read it: "3 requests, 200 tokens".
func (a Amounts) String() string {
	var parts []string
	for _, name := range a.Names() {
		parts = append(parts, fmt.Sprintf("%d %s", a[name], name))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// The words of notes about amounts; see WriteNote.
const (
	noteReserved = "reserved "
	noteSettled  = "settled "
	noteKept     = " kept "
	noteBy       = " by "
)

// written is how a note has amounts: JSON with sorted names. null: there are none.
func (a Amounts) written() string {
	if a == nil {
		return "null"
	}
	out := append(make([]byte, 0, 32*len(a)+2), '{')
	for _, name := range a.Names() {
		if strings.ContainsFunc(name, func(r rune) bool {
			return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
		}) {
			return a.marshalled() // what has to be escaped is rare
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(append(append(out, '"'), name...), `":`...), a[name], 10)
	}
	return string(append(out, '}'))
}

func (a Amounts) marshalled() string {
	data, err := json.Marshal(map[string]int64(a))
	if err != nil {
		return "null" // texts and numbers always encode
	}
	return string(data)
}

// settledNote is the note of a result that has Settle or Reserve, or an Incarnation that could be read as one.
func (e *Entry) settledNote() string {
	note := noteSettled + e.Settle.written()
	if len(e.Reserve) > 0 {
		note += noteKept + e.Reserve.written()
	}
	if e.Incarnation != "" {
		note += noteBy + e.Incarnation
	}
	return note
}

// readReserved reads the note of a call that has reserved something; nil: it is another note.
func readReserved(note string) Amounts {
	text, found := strings.CutPrefix(note, noteReserved)
	var a Amounts
	if !found || json.Unmarshal([]byte(text), &a) != nil || noteReserved+a.written() != note {
		return nil
	}
	return a
}

// readSettled reads the note of a result that says what was used. False: it is another note.
func (e *Entry) readSettled() bool {
	text, found := strings.CutPrefix(e.Note, noteSettled)
	if !found {
		return false
	}
	read := *e
	read.Settle, read.Reserve = nil, nil
	dec := json.NewDecoder(strings.NewReader(text))
	if dec.Decode(&read.Settle) != nil {
		return false
	}
	text = text[dec.InputOffset():]
	if kept, found := strings.CutPrefix(text, noteKept); found {
		dec = json.NewDecoder(strings.NewReader(kept))
		if dec.Decode(&read.Reserve) != nil {
			return false
		}
		text = kept[dec.InputOffset():]
	}
	read.Incarnation = strings.TrimPrefix(text, noteBy)
	if read.settledNote() != e.Note {
		return false
	}
	e.Settle, e.Reserve, e.Incarnation = read.Settle, read.Reserve, read.Incarnation
	return true
}
