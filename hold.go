package agentkernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Holds lets everything stand still, and go on.
type Holds interface {
	// Halt lets what the hold is over stand still, durably: no new call is made, and no process started; calls under way end,
	// and their results wait. Sleeps and limits go by the clock as ever. Errors: CodeConflict if it is halted already,
	// CodeNotFound if there is no such process.
	Halt(ctx context.Context, h Hold) error
	// Thaw ends the hold that Halt has begun, of which only what it is over counts. CodeConflict: there is none.
	Thaw(ctx context.Context, h Hold) error
}

// Hold is over a namespace, over a process with all below it, or else over the whole kernel.
type Hold struct {
	Namespace string    `json:"namespace,omitempty"`
	Tree      PID       `json:"tree,omitempty"` // the process at the top
	Since     time.Time `json:"since"`          // the kernel fills it in; microseconds
	Why       string    `json:"why,omitempty"`
}

// MaxHoldWhy bounds Hold.Why, in bytes.
const MaxHoldWhy = 1 << 10

// Validate refuses a hold over two things, and a reason that is too long.
func (h *Hold) Validate() error {
	switch {
	case h.Namespace != "" && h.Tree != 0:
		return Errorf(CodeInvalid, "halt", "a hold is over a namespace or over a process, not over both")
	case h.Tree < 0:
		return Errorf(CodeInvalid, "halt", "%d is not a pid: pids are whole numbers from 1", h.Tree)
	case len(h.Why) > MaxHoldWhy:
		return Errorf(CodeInvalid, "halt", "the reason is %d bytes long; the limit is %d", len(h.Why), MaxHoldWhy)
	}
	if err := ValidateNamespace(h.Namespace); err != nil {
		return err
	}
	return validText("the reason", h.Why)
}

// Over says what a hold is over, in words.
func (h *Hold) Over() string {
	switch {
	case h.Namespace != "":
		return "the namespace " + h.Namespace
	case h.Tree != 0:
		return fmt.Sprintf("process %d with all below it", h.Tree)
	}
	return "the kernel"
}

// Same says whether two holds are over the same.
func (h *Hold) Same(other *Hold) bool { return h.Namespace == other.Namespace && h.Tree == other.Tree }

// Covers says whether a process of a namespace stands still because of the hold; ancestors are the processes above it.
func (h *Hold) Covers(pid PID, namespace string, ancestors []PID) bool {
	switch {
	case h.Namespace != "":
		return h.Namespace == namespace
	case h.Tree != 0:
		return h.Tree == pid || slices.Contains(ancestors, h.Tree)
	}
	return true
}

// Command is the end of the command line that begins or ends the hold, for a shell: "halt --namespace 'a b'".
func (h *Hold) Command(verb string) string {
	words := []string{verb}
	switch {
	case h.Namespace != "":
		name := h.Namespace // which others have chosen
		if strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/:", r)
		}) {
			name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		}
		words = append(words, "--namespace", name)
	case h.Tree != 0:
		words = append(words, "--tree", h.Tree.String())
	}
	return strings.Join(words, " ")
}

// Halted is the answer to whoever wants something that a hold is over.
func (h *Hold) Halted(op string) *Error {
	why := ""
	if h.Why != "" {
		why = " (" + h.Why + ")"
	}
	return Errorf(CodeUnavailable, op, "%s stands still since %s%s", h.Over(), h.Since.UTC().Format(time.RFC3339), why).
		WithHint("agentkernel %s lets it go on", h.Command("thaw"))
}
