package kernel_test

import (
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/retention"
	"agentkernel/internal/store/sqlite"
	"agentkernel/internal/sys/families"
)

func openSQLite(t testing.TB) agentkernel.Store {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "kernel.db"), Blobs: filepath.Join(dir, "blobs"), Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func benchKernel(b *testing.B) (*kernel.Kernel, *goBackend) {
	b.Helper()
	backend := newGoBackend()
	store := openSQLite(b)
	tools := toolsOf(func([]string) (agentkernel.ToolSource, error) { return &fakeTools{}, nil })
	k, err := kernel.New(kernel.Config{Store: store, Retention: retention.New(retention.Config{Store: store}), Backends: []agentkernel.Backend{backend},
		Tools: tools, Families: families.All(families.Parts{Tools: tools})})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	return k, backend
}

// BenchmarkRun is a program that prints a line and ends, without an engine: what kernel and store cost, also of one that may use tools.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name       string
		durability agentkernel.Durability
		tools      bool
	}{
		{"full", agentkernel.DurabilityFull, false}, {"relaxed", agentkernel.DurabilityRelaxed, false}, {"tools", agentkernel.DurabilityRelaxed, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			k, backend := benchKernel(b)
			backend.add("p", func(p *prog) error { p.print("42\n"); return nil })
			s := spec("p")
			if s.Durability = c.durability; !c.tools {
				s.Tools, s.Allow = nil, nil
			}
			for b.Loop() {
				if _, err := k.Run(b.Context(), s, func(agentkernel.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPureCall is one pure syscall of a running program.
func BenchmarkPureCall(b *testing.B) {
	k, backend := benchKernel(b)
	backend.add("p", func(p *prog) error {
		for b.Loop() {
			if _, err := p.call("time.now", `{}`); err != nil {
				return err
			}
		}
		return nil
	})
	s := spec("p")
	s.Limits.Calls = 1 << 40
	if _, err := k.Run(b.Context(), s, func(agentkernel.Event) error { return nil }); err != nil {
		b.Fatal(err)
	}
}
