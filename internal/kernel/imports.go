package kernel

import (
	"encoding/json"

	"agentkernel"
)

// noteTools journals what the program's imports of tools mean, once: a replay elsewhere has no servers that
// could be asked.
func (k *Kernel) noteTools(p *process, b *binding) {
	if len(b.tools) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted || p.state.Terminal() {
		return
	}
	p.noted = true
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryTools, Data: b.noted()})
}

// noted is the binding as the journal shows it: what a sandbox needs to bind the functions, no schemas. It is
// computed once for all processes that share the binding.
func (b *binding) noted() json.RawMessage {
	b.once.Do(func() {
		tools := make([]agentkernel.Tool, len(b.tools))
		for i, t := range b.tools {
			tools[i] = agentkernel.Tool{Server: t.Server, Name: t.Name, PythonServer: t.PythonServer, PythonName: t.PythonName,
				Effect: t.Effect, Signature: t.Signature, Doc: t.Doc, Params: t.Params}
		}
		data, err := json.Marshal(tools)
		if err != nil {
			data = nil // a list of texts always encodes
		}
		b.note = data
	})
	return b.note
}
