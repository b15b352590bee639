package agentkernel_test

import (
	"reflect"
	"testing"

	"agentkernel"
)

// TestNotesAreReadAsTheyWereWritten: the texts are in stored journals and in recordings, so they never change.
func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	for _, want := range []agentkernel.Entry{
		{Kind: agentkernel.EntryCreated, Note: "imported: pid 12 of store 4f2c", Imported: &agentkernel.ProcessOf{PID: 12, Store: "4f2c"}},
		{Kind: agentkernel.EntryCreated, Note: "imported: pid 1 of store a of store b", Imported: &agentkernel.ProcessOf{PID: 1, Store: "a of store b"}},
		{Kind: agentkernel.EntryCall, Note: "from pid 12 call 7", Origin: &agentkernel.OriginCall{PID: 12, Call: 7}},
		{Kind: agentkernel.EntryCall, Note: "as pid 12 call 7", Origin: &agentkernel.OriginCall{PID: 12, Call: 7, As: true}},
		{Kind: agentkernel.EntryCall, Note: `as pid 12 call 7 reserved {"calls":1}`, Origin: &agentkernel.OriginCall{PID: 12, Call: 7, As: true}, Reserve: agentkernel.Amounts{"calls": 1}},
		{Kind: agentkernel.EntryResult, Note: "i1", Incarnation: "i1"},
		{Kind: agentkernel.EntryResult, Note: "from pid 1 call 2", Incarnation: "from pid 1 call 2"},
		{Kind: agentkernel.EntryCall, Note: `reserved {"nano_usd":7,"tokens":0}`, Reserve: agentkernel.Amounts{"nano_usd": 7, "tokens": 0}},
		{Kind: agentkernel.EntryRetry, Note: `reserved {"a b":-1}`, Reserve: agentkernel.Amounts{"a b": -1}},
		{Kind: agentkernel.EntryRetry},
		{Kind: agentkernel.EntryResult, Note: `settled {}`, Settle: agentkernel.Amounts{}},
		{Kind: agentkernel.EntryResult, Note: `settled {"tokens":9223372036854775807} by i1`, Settle: agentkernel.Amounts{"tokens": 1<<63 - 1}, Incarnation: "i1"},
		{Kind: agentkernel.EntryResult, Note: `settled null by settled {"tokens":1}`, Incarnation: `settled {"tokens":1}`}, // as a server may call itself
		{Kind: agentkernel.EntryResult, Note: `settled {} kept {"tokens":7}`, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{"tokens": 7}},
		{Kind: agentkernel.EntryResult, Note: `settled {"calls":1} kept {"tokens":7} by i1`, Settle: agentkernel.Amounts{"calls": 1}, Reserve: agentkernel.Amounts{"tokens": 7}, Incarnation: "i1"},
		{Kind: agentkernel.EntrySettled, Note: `settled {"tokens":3}`, Settle: agentkernel.Amounts{"tokens": 3}},
		{Kind: agentkernel.EntrySettled, Note: `settled null`},
		{Kind: agentkernel.EntrySettled, Note: `settled {} kept {"unsent":1}`, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{"unsent": 1}},
		{Kind: agentkernel.EntrySignal, Note: "interrupt", Signal: agentkernel.SignalInterrupt},
		{Kind: agentkernel.EntryResolve, Note: "retry", Decision: agentkernel.DecisionRetry},
		{Kind: agentkernel.EntryAllowed, Note: "files.*", Pattern: "files.*"},
		{Kind: agentkernel.EntryPaused, Note: "from pid 1 call 2"},
		{Kind: agentkernel.EntryPast, Note: "retry"},
		{Kind: agentkernel.EntryCall},
	} {
		read := agentkernel.Entry{Kind: want.Kind, Note: want.Note}
		if read.ReadNote(); !reflect.DeepEqual(read, want) {
			t.Errorf("%s %q was read as %+v", want.Kind, want.Note, read)
		}
		written := want
		written.Note = ""
		written.WriteNote()
		if said := written.Note; said != want.Note && want.Kind != agentkernel.EntryPaused && want.Kind != agentkernel.EntryPast {
			t.Errorf("%s %q was written as %q", want.Kind, want.Note, said)
		}
	}
}

// A note of an origin in other words is for people: a program or a server may have had a say in it.
func TestNotesInOtherWords(t *testing.T) {
	for _, note := range []string{"", "from pid 1", "from pid 1 call", "from pid 1 call ", "from pid 1 call 2 ", "from pid +1 call 2", "from pid 01 call 2",
		"from  pid 1 call 2", "From pid 1 call 2", "as pid 1 call x", "from pid 1 call 99999999999999999999",
		`from pid 1 call 2 reserved {"a": 1}`, `from pid 1 call 2  reserved {"a":1}`, `from pid 1 call 2 reserved`, "imported: pid 1 of store x"} {
		e := agentkernel.Entry{Kind: agentkernel.EntryCall, Note: note}
		if e.ReadNote(); e.Origin != nil {
			t.Errorf("%q was read as %+v", note, *e.Origin)
		}
	}
	for _, note := range []string{`reserved`, `reserved null`, `reserved {"b":1,"a":1}`, `reserved {"a": 1}`, `reserved {"a":1} `, `reserved {"a":1.5}`, `reserved {"a":9223372036854775808}`} {
		e := agentkernel.Entry{Kind: agentkernel.EntryCall, Note: note}
		if e.ReadNote(); e.Reserve != nil {
			t.Errorf("%q was read as %v", note, e.Reserve)
		}
	}
	for _, note := range []string{`settled`, `settled  {}`, `settled {"a":1}by x`, `settled {"a":1} `, `settled {"a":1} by`, `settled {"a":1} by `, `settled {} kept`, `settled {} kept {"a": 1}`, `settled {} kept {}`} {
		e := agentkernel.Entry{Kind: agentkernel.EntryResult, Note: note}
		if e.ReadNote(); e.Settle != nil || e.Incarnation != note {
			t.Errorf("%q was read as %v of %q", note, e.Settle, e.Incarnation)
		}
	}
	for _, note := range []string{"imported: ", "imported: x", "imported: pid 1", "imported: pid 01 of store x", "pid 1 of store x"} {
		e := agentkernel.Entry{Kind: agentkernel.EntryCreated, Note: note}
		if e.ReadNote(); e.Imported != nil {
			t.Errorf("%q was read as %+v", note, *e.Imported)
		}
	}
	e := agentkernel.Entry{Kind: agentkernel.EntryPaused, Note: "why"}
	if e.WriteNote(); e.Note != "why" {
		t.Errorf("a note without a field became %q", e.Note)
	}
}
