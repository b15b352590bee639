package history

import (
	"strings"

	"agentkernel"
)

// unanswered is what errors of calls say whose time was over.
const unanswered = "did not answer"

// Overdue is the reason why it is not known whether a write happened, where that is that its time was over. [StillAtWork] finds it again.
func Overdue(reason string) string {
	if strings.Contains(reason, unanswered) {
		return reason
	}
	return "it " + unanswered + " in time: " + reason
}

// StillAtWork says of the error of a write in doubt that whoever was to make it may do so yet: it was given up while its server lived. A
// server that ends with its kernel does nothing more where that has died.
func StillAtWork(e *agentkernel.Error) bool {
	if e == nil || e.Code != agentkernel.CodeOutcomeUnknown {
		return false
	}
	_, reason, _ := strings.Cut(e.Message(), ": ")
	first, _, _ := strings.Cut(reason, "\n") // what a server has said last stands below
	return strings.Contains(first, unanswered)
}
