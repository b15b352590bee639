package history

import (
	"errors"
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// opBlob is the operation of errors about a payload that lies in a file of its own.
const opBlob = "blob"

// CanBePutBack says whether err is about a payload in a file that is missing or damaged: whoever has a backup can put that back, and
// the journal is whole again.
func CanBePutBack(err *agentkernel.Error) bool {
	for err != nil {
		if err.Op == opBlob {
			return true
		}
		if !errors.As(err.Err, &err) {
			return false
		}
	}
	return false
}

// Unreadable shows a process that was left as it was because a payload of it cannot be read. Its note says what to do, its error
// what is missing.
func Unreadable(rec agentkernel.ProcessRecord, lost *agentkernel.Error) agentkernel.Process {
	rec.State, rec.Paused, rec.PauseNote, rec.Parked = agentkernel.StateUnfinished, true, UnreadableNote(rec.PID, lost), nil
	return Shown(rec, lost)
}

// NotRead shows a process that was left as it was because there is no room to repeat its journal; any other error it returns.
func NotRead(rec agentkernel.ProcessRecord, err error) ([]agentkernel.Process, error) {
	if !NoRoom(err) {
		return nil, err
	}
	return []agentkernel.Process{Unreadable(rec, agentkernel.AsError(err, "", ""))}, nil
}

// UnreadableNote says why a process is paused of which a payload cannot be read, and what to do.
func UnreadableNote(pid agentkernel.PID, lost *agentkernel.Error) string {
	if NoRoom(lost) {
		return fmt.Sprintf(advice.WhenRoom, lost.Message(), pid, pid)
	}
	return fmt.Sprintf(advice.WhenPutBack, lost.Message(), pid, pid)
}

// Left is why Recover, which returned list, left a process as it was; nil: it did not.
func Left(list []agentkernel.Process, pid agentkernel.PID) error {
	for i := range list {
		if p := &list[i]; p.PID == pid && p.NotTakenUp() {
			if NoRoom(p.Error) {
				return p.Error.WithPID(pid).WithHint(advice.OtherFirst, pid, pid)
			}
			return p.Error.WithPID(pid).WithHint(advice.PutBack, pid, pid)
		}
	}
	return nil
}
