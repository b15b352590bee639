package monty

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	sandboxtest.Suite{
		New: func(t testing.TB) agentkernel.Backend { return newBackend(t) },
		Lacks: []sandboxtest.Feature{sandboxtest.Generators, sandboxtest.Subclasses, sandboxtest.Match, sandboxtest.Threads,
			sandboxtest.Files, sandboxtest.Folders, sandboxtest.Programs, sandboxtest.OwnErrors, sandboxtest.Frozen},
	}.Exercise(t)
}
