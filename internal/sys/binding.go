package sys

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"agentkernel"
)

// Binding is what a program's imports of tools mean. It is shared by all processes that mean the same, and never changed.
type Binding struct {
	Tools []agentkernel.Tool

	once  sync.Once
	noted json.RawMessage
}

// Find looks a tool up by either of its names; nil: the program has not imported it. b may be nil.
func (b *Binding) Find(server, tool string) *agentkernel.Tool {
	if b == nil {
		return nil
	}
	for i := range b.Tools {
		t := &b.Tools[i]
		if (t.Server == server || t.PythonServer == server) && (t.Name == tool || t.PythonName == tool) {
			return t
		}
	}
	return nil
}

// Noted is the binding as the journal keeps it: what a backend needs of the tools, without their schemas.
func (b *Binding) Noted() json.RawMessage {
	b.once.Do(func() {
		tools := make([]agentkernel.Tool, len(b.Tools))
		for i, t := range b.Tools {
			tools[i] = agentkernel.Tool{Server: t.Server, Name: t.Name, PythonServer: t.PythonServer, PythonName: t.PythonName,
				Effect: t.Effect, CostUSD: t.CostUSD, Signature: t.Signature, Doc: t.Doc, Params: t.Params}
		}
		data, err := json.Marshal(tools)
		if err != nil {
			data = nil // a list of texts always encodes
		}
		b.noted = data
	})
	return b.noted
}

// Unbound is the error of a process whose imports have no binding: it is the same wherever the program runs.
type Unbound struct{ Err error }

// AtImport adds to an error where in a program the tool is imported.
func AtImport(program string, ref agentkernel.ToolRef, err error) error {
	e := *agentkernel.AsError(err, agentkernel.CodeUnavailable, "import")
	if ref.Line != 0 {
		e.Err = fmt.Errorf("%s, line %d: %w", program, ref.Line, e.Err)
	}
	return &e
}

// Error implements error.
func (e Unbound) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e Unbound) Unwrap() error { return e.Err }

// Toolbox finds the tools of programs, and reaches them outside any process.
type Toolbox interface {
	agentkernel.Tools
	// Pin notes in the Spec of a new process what its tools files hold.
	Pin(s *agentkernel.Spec) error
	// Shadowed refuses local tools with the name of a server of the Spec.
	Shadowed(ctx context.Context, s *agentkernel.Spec, modules map[string]string) error
	// Bound is the binding of imports if no server has to be asked for it; else nil.
	Bound(s *agentkernel.Spec, refs []agentkernel.ToolRef) *Binding
	// Bind finds the tools that a program imports, which may start servers. An error comes with the import that it is about.
	Bind(ctx context.Context, s *agentkernel.Spec, refs []agentkernel.ToolRef) (*Binding, agentkernel.ToolRef, error)
	// Gone is the error of a Spec whose tools are functions of a program that has ended; nil: they can be called. It does not wait.
	Gone(ctx context.Context, s *agentkernel.Spec) *agentkernel.Error
}
