package embedded

import (
	"agentkernel"
	"agentkernel/internal/recording"
)

// Redact takes more secrets out of a recording, those that red knows. Errors: as of a recording that cannot be read.
func Redact(file []byte, red agentkernel.Redaction) ([]byte, error) {
	return recording.Redact(file, red)
}
