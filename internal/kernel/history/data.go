package history

import (
	"encoding/json"

	"agentkernel"
)

// SpecData is the Data of an EntryCreated: the Spec without the texts of the program.
func SpecData(s *agentkernel.Spec) json.RawMessage {
	shown := *s
	shown.Program.Source, shown.Program.Modules = "", nil
	data, err := json.Marshal(shown)
	if err != nil {
		return nil // a budget that JSON has no number for; the row has the rest
	}
	return data
}

// Created is the Spec of a process as the first entry of its journal has it: without the texts of the program. ok is false if
// the journal does not begin with it.
func Created(entries []agentkernel.Entry) (s agentkernel.Spec, ok bool) {
	if len(entries) == 0 || entries[0].Kind != agentkernel.EntryCreated {
		return s, false
	}
	return s, json.Unmarshal(entries[0].Data, &s) == nil
}

// ImportedFrom says of which process the recording was that a journal came with; "": it came with none.
func ImportedFrom(entries []agentkernel.Entry) string {
	if len(entries) == 0 || entries[0].Imported == nil {
		return ""
	}
	return entries[0].Imported.String()
}

// Repeatable says whether an end is the program's own, so that a replay ends so too.
func Repeatable(e *agentkernel.Error) bool {
	if e == nil {
		return true
	}
	switch e.Code {
	case agentkernel.CodeCrashed, agentkernel.CodeDiverged, agentkernel.CodeUnavailable, agentkernel.CodeStorage, agentkernel.CodeFenced, agentkernel.CodeCorrupt,
		agentkernel.CodeVersion, agentkernel.CodeInternal, agentkernel.CodeCanceled:
		return false
	}
	return true
}
