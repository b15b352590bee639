package agentkernel

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"
)

// ToolSource gives access to the tools of one set of configuration files. Servers start when they are
// first needed. It is safe for concurrent use.
type ToolSource interface {
	// Servers lists the configured servers without starting them.
	Servers(ctx context.Context) ([]ToolServer, error)
	// Tools lists a server's tools, starting it if needed; server is the configured or the Python name.
	// Errors: CodeNotFound with the nearest names; CodeUnavailable with the server's last stderr lines.
	Tools(ctx context.Context, server string) ([]Tool, error)
	// Call runs one tool. Errors: CodeTool with the server's own message when the tool says it failed;
	// CodeAnswerLost when it ran, and what it answered is too large or cannot be read;
	// CodeTimeout, CodeUnavailable or CodeSessionLost when the server did; CodeInvalid with the expected
	// signature when the arguments do not fit. An error other than CodeTool, CodeAnswerLost, CodeInvalid and
	// CodeNotFound leaves the outcome unknown unless NotSent is reported in the result.
	Call(ctx context.Context, c ToolCall) (ToolResult, error)
	// Turn is for what a call of a server has to wait, which does only so much at once; nil: for nothing. Namespaces take turns, and in each
	// the calls that were made first go first.
	Turn(server, namespace string, made time.Time) ToolTurn
}

// ToolTurn is the place of one call among those that its server does at once.
type ToolTurn interface {
	// Ready takes the place if the call may have it at once; else Wait follows, or Drop.
	Ready() bool
	// Wait waits for it, at most as long as the server's calls may take. Errors: CodeTimeout, CodeCanceled; nothing was sent.
	Wait(ctx context.Context) error
	// Waiting says why Wait has not returned, in few words; "": it has.
	Waiting() string
	// Drop gives the place back, if the call has it.
	Drop()
}

// ToolServer is one configured server.
type ToolServer struct {
	Name       string `json:"name"`        // as in the configuration
	PythonName string `json:"python_name"` // as programs import it: tools.<python_name>
	Transport  string `json:"transport"`   // "stdio", "http" or "local"
	Trusted    bool   `json:"trusted"`     // its annotations count
	Running    bool   `json:"running"`
	Source     string `json:"source,omitempty"` // the file that configures it
	Problem    string `json:"problem,omitempty"`
	// Printed is the end of what a running stdio server wrote to stdout that is no message. It was passed over.
	Printed string `json:"printed,omitempty"`
}

// Tool is one tool with what a program, and a model that writes one, needs to know.
type Tool struct {
	Server       string          `json:"server"` // configured name
	Name         string          `json:"name"`   // the server's own name for it
	PythonServer string          `json:"python_server"`
	PythonName   string          `json:"python_name"` // identifier; unique within its server
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Effect       Effect          `json:"effect"`    // from annotations: read, idempotent or write
	Signature    string          `json:"signature"` // "read_text_file(path: str, head: int | None = None) -> str"
	Doc          string          `json:"doc"`       // docstring for help()
	Params       []ToolParam     `json:"params"`    // in the order of the signature
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// CostUSD is what a call costs; nil: the configuration does not say, which is not the same as 0.
	CostUSD *NanoUSD `json:"cost_usd,omitempty"`
	// Observed is what results looked like, where no output schema says it; nil: nothing was seen yet.
	Observed *ToolShape `json:"observed,omitempty"`
	// Changed says that the tool is not the one that was accepted; nil: it is.
	Changed *ToolChange `json:"changed,omitempty"`
}

// AllowedBy says whether a pattern of Spec.Allow covers the tool: "server.tool" with * and ?, by the configured or the
// Python names; a pattern without a dot is a server. The last dot is the one between the two: dots of a tool's own name are
// written [.], so that "a.b.c" is never both the tool b.c of the server a and the tool c of the server a.b.
func (t *Tool) AllowedBy(pattern string) bool {
	if pattern == "*" {
		return true
	}
	server, tool, one := splitPattern(pattern)
	return matchesAny(server, t.Server, t.PythonServer) && (!one || matchesAny(tool, t.Name, t.PythonName))
}

// splitPattern cuts a pattern at its last dot that is neither escaped nor in brackets.
func splitPattern(pattern string) (server, tool string, ok bool) {
	at, class := -1, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '.':
			at = i
		}
	}
	if at < 0 {
		return pattern, "", false
	}
	return pattern[:at], pattern[at+1:], true
}

func matchesAny(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

// ToolParam is one parameter of a tool's Python function.
type ToolParam struct {
	Name     string `json:"name"`   // as the tool's schema names it
	Python   string `json:"python"` // identifier for keyword arguments
	Type     string `json:"type"`   // Python annotation
	Required bool   `json:"required,omitempty"`
	Default  string `json:"default,omitempty"` // as Python source
	Doc      string `json:"doc,omitempty"`
}

// ToolCall is one call of a tool.
type ToolCall struct {
	Server    string          // configured or Python name
	Tool      string          // the server's name or the Python name
	Arguments json.RawMessage // plain JSON object
	// Key is the idempotency key "<store uuid>/<pid>/<call>"; MCP servers find it in _meta.
	Key string
	// Expect is the incarnation of the server that this process talked to before; a server that keeps a
	// session and has another incarnation now answers CodeSessionLost. Empty: any.
	Expect  string
	Timeout time.Duration // 0: the server's own
	HasTurn bool          // the caller has the call's place, see ToolSource.Turn, and gives it back; else Call waits for one
	// Admit is asked right before the call is sent, with the tool as its server describes it then: it may have started
	// again since it was asked for its tools. The error is that of the call, which is not sent. Nil: it is sent.
	Admit func(Tool) error
}

// ToolResult is what a tool answered.
type ToolResult struct {
	Value       json.RawMessage // JSON: structured content, else text, else a list of content parts
	Incarnation string          // the incarnation of the server that answered
	NotSent     bool            // with an error: the call certainly did not reach the server
	// Waits says, with an error and NotSent, that the server has to start first: the call should wait for its turn again.
	Waits bool
	// Done, if not nil, gives back the room that the answer takes among all that is being received. It is called once the kernel has
	// what became of it.
	Done func()
}

// CheckAllow says what is wrong with a pattern of Spec.Allow.
func CheckAllow(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return Errorf(CodeInvalid, "spec", "allow %q is no pattern, and would allow nothing: %w", pattern, err).
			WithHint("server.tool with * and ?; a bracket or backslash that is meant as such has a backslash before it")
	}
	return nil
}

var exact = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// ExactPattern is the pattern of Spec.Allow that means one tool and no other: a server may name a tool "*", or "b.c".
func ExactPattern(server, tool string) string {
	return exact.Replace(server) + "." + strings.ReplaceAll(exact.Replace(tool), ".", "[.]")
}
