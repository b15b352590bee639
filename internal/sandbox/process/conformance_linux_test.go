package process

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	sandboxtest.Suite{
		New: func(t testing.TB) agentkernel.Backend {
			return newBackend(t, func(c *Config) { c.GoCache, c.Command = goCache(t), OwnCommand() })
		},
		Lacks: []sandboxtest.Feature{sandboxtest.Images},
	}.Exercise(t)
}
