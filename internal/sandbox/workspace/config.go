package workspace

import (
	"log/slog"

	"agentkernel"
)

// Config says where layers are kept.
type Config struct {
	// Dir is where: a directory of the data directory. It is made when the first process needs it.
	Dir string
	// Apart is the data directory. A folder that holds it, or lies in it, is refused.
	Apart string
	// Origin names the store that the processes of this kernel are kept in: what belongs to another is left alone.
	Origin string
	// Copy makes every layer a copy, as on a machine without overlayfs.
	Copy   bool
	Logger *slog.Logger
}

// Bounds. Entry bytes count towards Limits.Disk beside the sizes of files, so that empty files are not free.
const (
	MaxFiles   = 1 << 20 // of a folder
	maxDepth   = 200     // of directories, in folders and layers
	entryBytes = 4 << 10 // what a name costs
)

const op = "workspace"

func invalid(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...)
}

func conflict(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeConflict, op, format, args...)
}
