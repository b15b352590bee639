package olddir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentkernel"
)

// far is the far end: a server with a tool of each effect. It writes down each call before it performs it. While an
// archive is made, it never answers a call whose line begins with "hang".
type far struct {
	log   string // file with the calls, one in a line: pid, number of the call, tool, line
	hangs bool
	mu    sync.Mutex
}

// farLog lies in the data directory, so that an archive says which calls were made.
const farLog = "far.log"

func newFar(home string, hangs bool) *far {
	return &far{log: filepath.Join(home, farLog), hangs: hangs}
}

func (f *far) source([]string) (agentkernel.ToolSource, error) { return f, nil }

func (f *far) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "book", PythonName: "book", Transport: "local", Trusted: true}}, nil
}

func (f *far) Tools(context.Context, string) (tools []agentkernel.Tool, _ error) {
	params := []agentkernel.ToolParam{{Name: "line", Python: "line", Type: "str", Required: true}}
	for _, t := range []struct {
		name   string
		effect agentkernel.Effect
	}{{"read", agentkernel.EffectRead}, {"put", agentkernel.EffectIdempotent}, {"write", agentkernel.EffectWrite}} {
		tools = append(tools, agentkernel.Tool{Server: "book", PythonServer: "book", Name: t.name, PythonName: t.name, Effect: t.effect,
			Signature: t.name + "(line: str)", Params: params})
	}
	return tools, nil
}

func (f *far) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }

func (f *far) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	var args struct{ Line string }
	err := json.Unmarshal(c.Arguments, &args)
	if err == nil {
		err = f.note(c.Key, c.Tool, args.Line)
	}
	if err != nil {
		return agentkernel.ToolResult{NotSent: true}, err
	}
	if args.Line == "error" {
		return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "there is no such line")
	}
	if f.hangs && strings.HasPrefix(args.Line, "hang") {
		<-ctx.Done()
		return agentkernel.ToolResult{}, ctx.Err()
	}
	answer := "ok " + args.Line
	if args.Line == "big" {
		answer = strings.Repeat("a line\n", 6_000) // so that it lies in a file of its own
	}
	value, err := json.Marshal(answer)
	return agentkernel.ToolResult{Value: value, Incarnation: "1"}, err
}

func (f *far) note(key, tool, line string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := os.OpenFile(f.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer w.Close()
	_, process, _ := strings.Cut(key, "/") // behind the store's name
	_, err = fmt.Fprintf(w, "%s %s(%s)\n", strings.Replace(process, "/", " ", 1), tool, line)
	return err
}

// made lists the calls that reached the far end, by process, in the order of their arrival: "3 write(x)" is call 3.
func (f *far) made() (map[agentkernel.PID][]string, error) {
	text, err := os.ReadFile(f.log)
	calls := map[agentkernel.PID][]string{}
	for line := range strings.Lines(string(text)) {
		var pid agentkernel.PID
		if _, err := fmt.Sscan(line, &pid); err != nil {
			return nil, err
		}
		_, call, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		calls[pid] = append(calls[pid], call)
	}
	return calls, err
}
