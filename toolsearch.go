package agentkernel

import (
	"context"
	"strings"
	"time"
)

// ToolSearcher is the ability of a ToolSource to find tools by what somebody wants to do.
type ToolSearcher interface {
	// SearchTools ranks the tools of all servers, starting those that do not run. A server that cannot be
	// asked is a problem of the answer, not an error. Errors: CodeInvalid.
	SearchTools(ctx context.Context, q ToolQuery) (ToolMatches, error)
}

// ToolPinner is the ability of a ToolSource to remember what tools looked like when they were accepted.
type ToolPinner interface {
	// AcceptTools accepts the tools of a server as they are now: the named ones, or all. It gives how many
	// had changed. Errors: those of ToolSource.Tools; CodeNotFound for a name that the server does not have.
	AcceptTools(ctx context.Context, server string, names ...string) (int, error)
}

// ToolQuery asks for tools.
type ToolQuery struct {
	Text   string `json:"text"`             // words, in any language; "" lists tools in the order of their servers
	Server string `json:"server,omitempty"` // only this server's, by either of its names
	Limit  int    `json:"limit,omitempty"`  // 0 means 10; at most MaxToolMatches
	// Modules are local tools of whoever asks, as in Program.Modules: they are described, and ranked with the others.
	Modules map[string]string `json:"modules,omitempty"`
}

const (
	// MaxToolMatches bounds how many tools one search gives.
	MaxToolMatches = 1000
	// MaxToolQuery is how many bytes the words of one have at most.
	MaxToolQuery = 64 << 10
)

// Validate fills in the limit and says what is wrong with a query.
func (q *ToolQuery) Validate() error {
	switch {
	case q.Limit < 0 || q.Limit > MaxToolMatches:
		return Errorf(CodeInvalid, "tools", "limit %d is out of range: 1 to %d", q.Limit, MaxToolMatches)
	case len(q.Text) > MaxToolQuery:
		return Errorf(CodeInvalid, "tools", "the query has %d KiB; at most %d are possible", len(q.Text)>>10, MaxToolQuery>>10).
			WithHint("say in a few words what a tool has to do")
	case q.Limit == 0:
		q.Limit = 10
	}
	return nil
}

// ToolMatches answers a ToolQuery.
type ToolMatches struct {
	Tools    []Tool   `json:"tools"` // best first
	Total    int      `json:"total"` // how many tools were searched
	Problems []string `json:"problems,omitempty"`
}

// ToolShape is what results of a tool that declares no output schema looked like. It holds types and the
// names of members, never values.
type ToolShape struct {
	Version int    `json:"version"` // counted up when the shape changes; 1 is the first
	Results int64  `json:"results"` // how many results it was learned from
	Type    string `json:"type"`    // Python annotation: "list[dict[str, Any]]"
	// Text is the shape of the JSON that a text result holds; its Type is "str" then. Empty: plain text.
	Text string `json:"text,omitempty"`
	// Members describes objects, one line each, indented: `"name": str`.
	Members string `json:"members,omitempty"`
}

// ToolChange says that a tool is not what was accepted. Its Effect is the stricter one of then and now.
type ToolChange struct {
	Accepted time.Time `json:"accepted"` // when
	Hash     string    `json:"hash"`     // of what was accepted, the first digits
	What     []string  `json:"what"`     // "effect", "name", "title", "description", "input_schema", "output_schema"; or "new" alone
	// New says that the server was known without the tool: what it says of its effect does not count yet.
	New  bool   `json:"new,omitempty"`
	Diff string `json:"diff,omitempty"` // what was accepted, lines with a minus, and what is there now, lines with a plus
}

// Refused says whether a tool may not be called, whoever allows it, until it is accepted: it has changed, and may change
// things. What is new, and allowed, may be called.
func (t *Tool) Refused() bool {
	return t.Changed != nil && !t.Changed.New && t.Effect != EffectRead
}

// SeenSignature is the signature of a tool with the type that its results had so far, where its server declares none.
func (t *Tool) SeenSignature() string {
	if t.Observed != nil && len(t.OutputSchema) == 0 {
		if s, undeclared := strings.CutSuffix(t.Signature, " -> Any"); undeclared {
			return s + " -> " + t.Observed.Type
		}
	}
	return t.Signature
}
