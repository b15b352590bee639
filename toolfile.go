package agentkernel

import (
	"context"
	"strings"
)

// A tools file starts commands as the user, so it counts with the content that somebody saw: a process keeps
// that of the moment at which it was created, whatever is written to the file later. Who names a file to a
// ToolSource may add the digest of the content that is meant: "/home/u/mcp.json#sha256=<64 hex digits>".

const pinMark = "#sha256="

// PinFile names a tools file together with the SHA-256 of its content, in lower-case hex; "" is any content.
func PinFile(path, digest string) string {
	if digest == "" {
		return path
	}
	return path + pinMark + digest
}

// SplitPin is the reverse of PinFile.
func SplitPin(file string) (path, digest string) {
	const digits = 64
	at := len(file) - len(pinMark) - digits
	if at < 0 || !strings.HasPrefix(file[at:], pinMark) || strings.Trim(file[at+len(pinMark):], "0123456789abcdef") != "" {
		return file, ""
	}
	return file[:at], file[at+len(pinMark):]
}

// ToolFiles are the tools files of a Spec with the digests of what they held.
func (s *Spec) ToolFiles() []string {
	if len(s.ToolDigests) == 0 {
		return s.Tools
	}
	files := make([]string, len(s.Tools))
	for i, path := range s.Tools {
		files[i] = PinFile(path, s.ToolDigests[path])
	}
	return files
}

// ToolDigester is the ability of a ToolSource to say what its files hold.
type ToolDigester interface {
	// Digests gives the SHA-256 of the content that counts, in hex, by path.
	Digests() map[string]string
}

// ToolHosts is the ability of a ToolSource to say that a program has ended whose own functions are among its tools.
type ToolHosts interface {
	// Gone is CodeUnavailable if such a program is not there any more, and says what to do.
	Gone(ctx context.Context) error
}
