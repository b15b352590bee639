package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool/tooltest"
)

// Every tool of the surface, by the official client, over both transports.
func TestMCPTools(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	overBothTransports(t, cfg, func(t *testing.T, cs *mcp.ClientSession) {
		called := map[string]bool{}
		do := func(name string, a args, want string) map[string]any {
			t.Helper()
			called[name] = true
			return tool(t, cs, name, a, want)
		}
		do("list_servers", nil, "tools.test")
		do("list_available_tools", nil, "append_line")
		do("get_server_tools", args{"server_name": "test"}, "append_line(path: str, text: str)")
		do("search_tools", args{"query": "append a line to a file", "detail_level": "full", "max_results": 2}, "from tools.test import append_line")

		first := do("execute_code", args{"code": "from tools.test import add\nx = add(a=40, b=2)['sum']\nprint('got', x)"}, "got 42")
		again := do("execute_code", args{"code": "x + 1"}, "result: 43")
		if first["session"] != again["session"] || first["session"] == "" {
			t.Errorf("sessions %v and %v", first["session"], again["session"])
		}
		do("execute_code", args{"code": "x", "session": first["session"]}, "result: 42")
		do("execute_code", args{"code": "x", "session": "none"}, "!NameError")
		do("execute_code", args{"code": "x", "session": "new"}, "!NameError")
		do("execute_code", args{"code": "x"}, "!NameError")
		do("execute_code", args{"code": "d = {'a': 1}\nd['b']"}, "!KeyError")
		do("execute_task", args{"task_description": "Calculate fibonacci(30)"}, "832040")
		do("execute_task", args{"task_description": "write me a novel"}, "!unsupported")

		do("save_state", args{"state_data": args{"n": 1}}, `"version":1`)
		do("save_state", args{"state_data": []int{1}, "state_file": "other.json", "version": 7}, "!conflict")
		if got := do("get_state", nil, `"n":1`); got["exists"] != true {
			t.Errorf("%v", got)
		}
		if got := do("get_state", args{"state_file": "none.json"}, "{}"); got["exists"] != false {
			t.Errorf("%v", got)
		}

		do("save_skill", args{"name": "report", "code": "def monthly(rows, year=None):\n    return sum(rows)\n", "description": "Monthly sums.", "tags": []string{"sales"}},
			"from skills.report import monthly")
		do("execute_code", args{"code": "from skills.report import monthly\nmonthly([1, 2])"}, "result: 3")
		do("get_skill", args{"name": "report"}, "def monthly(rows, year=None)")
		do("list_skills", nil, "monthly(rows, year=None)")
		do("search_skills", args{"query": "sums of sales"}, "skills.report")
		do("delete_skill", args{"name": "report"}, "report")
		do("get_skill", args{"name": "report"}, "!not_found")

		task := do("dispatch_background_task", args{"code": "from kernel import sleep\nprint('begun')\nsleep(0.2)\n6 * 7"}, "running")
		id := task["task_id"]
		do("get_background_task_status", args{"task_id": id}, "task ")
		if got := do("wait_for_background_task", args{"task_id": id, "timeout": 30}, "completed"); got["result"] != 42.0 || got["stdout"] != "begun\n" {
			t.Errorf("%v", got)
		}
		do("cancel_background_task", args{"task_id": id}, "!ended already: completed")
		long := do("dispatch_background_task", args{"code": "while True:\n    pass"}, "running")["task_id"]
		if got := do("wait_for_background_task", args{"task_id": long, "timeout": 0.05}, "running"); got["status"] != "running" {
			t.Errorf("%v", got)
		}
		do("cancel_background_task", args{"task_id": long}, "cancelled")
		do("list_background_tasks", nil, fmt.Sprintf("%v  cancelled", long))
		do("get_version", nil, testVersion)

		list, err := cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tl := range list.Tools {
			if !called[tl.Name] {
				t.Errorf("%s was not called", tl.Name)
			}
			if tl.OutputSchema == nil {
				t.Errorf("%s has no output schema", tl.Name)
			}
		}
	})
}

func TestMCPBadInput(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	overBothTransports(t, cfg, func(t *testing.T, cs *mcp.ClientSession) {
		tool(t, cs, "execute_code", args{"code": "x = ("}, "!line 1")
		tool(t, cs, "execute_code", args{"code": "keep = 1"}, "")
		large := 1 << 20
		if strings.HasSuffix(t.Name(), "http") { // more takes a while
			large = 10 << 20
		}
		tool(t, cs, "execute_code", args{"code": "s = '" + strings.Repeat("x", large) + "'\nlen(s)"}, fmt.Sprint(large))
		tool(t, cs, "execute_code", args{"code": "x", "session": "12345"}, "!there is no session")
		tool(t, cs, "execute_code", args{"code": "x", "session": "../../etc"}, "!there is no session")
		tool(t, cs, "execute_code", args{"code": "x", "timeout": -1}, "!out of range")
		tool(t, cs, "execute_code", args{"code": "x", "timeout": 86401}, "!out of range")
		tool(t, cs, "execute_code", args{"code": "x", "language": "cobol"}, "!cobol")
		tool(t, cs, "execute_code", args{"code": "1", "backend": "nowhere"}, "!no backend")
		tool(t, cs, "execute_code", args{"code": "1", "backend": "process", "session": "new"}, "!did not prepare for sandboxes") // the old session stays
		tool(t, cs, "execute_code", args{"cod": "1"}, "!arguments of execute_code: code")
		tool(t, cs, "execute_code", args{}, "!code is missing")
		tool(t, cs, "execute_code", json.RawMessage(`{"code": "1", "Code": "2"}`), `!there is no field "Code"`)
		tool(t, cs, "execute_code", json.RawMessage(`{"code": "1", "code": "2"}`), "!is there twice")
		tool(t, cs, "execute_code", args{"code": 5, "timeout": "100"}, "result: 5") // the meaning is plain
		tool(t, cs, "execute_code", args{"code": []int{5}}, "!must be a string, not a list (arguments of execute_code: code,")
		tool(t, cs, "save_skill", args{"name": "x", "code": "x", "tags": 7}, "!tags must be a list, not a number")
		if strings.HasSuffix(t.Name(), "http") {
			tool(t, cs, "execute_code", args{"code": "from tools.test import big\nlen(big(mb=70))"}, "!64 MB")
		}
		tool(t, cs, "execute_code", args{"code": "'x' * 1000000"}, "is left out")
		tool(t, cs, "execute_code", args{"code": "keep"}, "result: 1")
		tool(t, cs, "search_tools", args{"query": "x", "max_results": 100000}, "!out of range")
		tool(t, cs, "search_tools", args{"query": "x", "detail_level": "all"}, "!detail_level")
		tool(t, cs, "get_server_tools", args{"server_name": "tset"}, "!did you mean")
		tool(t, cs, "get_state", args{"state_file": "../x"}, "!name of a state file")
		tool(t, cs, "save_skill", args{"name": "bad", "code": "def f(:"}, "!skills/bad.py, line 1")
		tool(t, cs, "save_skill", args{"name": "class", "code": "def f():\n    pass"}, "!name of a skill")
		tool(t, cs, "get_background_task_status", args{"task_id": "999"}, "!no background task")
		tool(t, cs, "cancel_background_task", args{"task_id": "x"}, "!no background task")
		// Not UTF-8: the bytes come as they are.
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: json.RawMessage("{\"code\": \"print('\xff')\"}")})
		if err == nil && (!res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "UTF-8")) {
			t.Errorf("invalid UTF-8: %+v", res.Content[0])
		}
		for code, want := range map[string]string{
			`print('\ud83d')`: `!\ud83d is half of a character`, `'\\\ude00'`: `!\ude00 is half`, `'\ude00\ud83d'`: `!\ude00 is half`, `'\ud83d\n'`: `!half`,
			`'\ud83d\ude00'`: "😀", `len('\\\\ud83d')`: "result: 6", `len('\u00e4')`: "result: 1",
		} {
			tool(t, cs, "execute_code", json.RawMessage(`{"code": "`+code+`"}`), want)
		}
		tool(t, cs, "execute_code", args{"code": "keep"}, "result: 1")
	})
}

// Code that is too much for the memory limit leaves its session as it was before, and says why.
func TestMCPCodeBeyondItsMemory(t *testing.T) {
	cfg := mcpConfig(openEmbedded(t, home(t)), "")
	cfg.Spec.Limits.Memory = 64 << 20
	cs := connectMCP(t, cfg)
	tool(t, cs, "execute_code", args{"code": "keep = 1"}, "")
	got := tool(t, cs, "execute_code", args{"code": strings.Repeat("x = 1\n", 240_000)}, "!the code has 1440000 bytes: let it read data")
	if got["session"] == nil || !strings.Contains(fmt.Sprint(got["error"]), "the session has the variables from before it") {
		t.Errorf("%v", got)
	}
	tool(t, cs, "execute_code", args{"code": "def f():\n    return f()\nf()"}, "!recursion limit reached")
	tool(t, cs, "execute_code", args{"code": "keep"}, "result: 1")
}

// A cell that is stopped leaves its session; what one that computed had done to the variables is taken back.
func TestMCPTimeoutAndCancel(t *testing.T) {
	overBothTransports(t, "", func(t *testing.T, cs *mcp.ClientSession) {
		tool(t, cs, "execute_code", args{"code": "keep = 7\nfrom kernel import sleep"}, "")
		got := tool(t, cs, "execute_code", args{"code": "sleep(60)", "timeout": 0.1}, "!ran longer than 100ms")
		tool(t, cs, "execute_code", args{"code": "keep"}, "result: 7")
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": "keep = 8\nwhile True:\n    pass"}})
			called <- err
		}()
		tool(t, cs, "get_version", nil, testVersion) // the server has both calls now, or soon
		cancel()
		if err := <-called; err == nil {
			t.Error("a cancelled call has an answer")
		}
		// Whether the cancelled cell began or not, it runs no more.
		tool(t, cs, "execute_code", args{"code": "1"}, "result: 1")
		back := tool(t, cs, "execute_code", args{"code": "keep = 9\nwhile True:\n    pass", "timeout": 0.1}, "!ran longer than 100ms")
		if got["session"] == nil || got["session"] != back["session"] || got["note"] != nil || !strings.Contains(fmt.Sprint(back["note"]), "the variables from before it") {
			t.Errorf("sessions after a stop: %v and %v", got, back)
		}
		tool(t, cs, "execute_code", args{"code": "keep"}, "result: 7")
	})
}

// Time that is up in the middle of a write is told together with the write: with more time alone a model would make it twice.
func TestMCPTellsOfAWriteInDoubt(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
	code := "from tools.test import hang\nhang()"
	tool(t, cs, "execute_code", args{"code": "from tools.test import echo\necho(value=1)"}, "") // the server runs from now on
	tool(t, cs, "execute_code", args{"code": code, "timeout": 1}, "!interrupted while tool.call test.hang was under way; whether it happened is unknown\ntimeout: ")
	tool(t, cs, "execute_code", args{"code": code, "timeout": 1, "session": "none"}, "!tool.call test.hang was under way: look whether it happened")
}

// What a client started for itself ends with it; what it dispatched goes on, and another client of the same
// user finds it. Other users find nothing.
func TestMCPClientsAndUsers(t *testing.T) {
	k := openEmbedded(t, home(t))
	url := serveHTTP(t, mcpConfig(k, ""))
	ann, bo := dialHTTP(t, url, annToken, nil), dialHTTP(t, url, boToken, nil)
	own := tool(t, ann, "execute_code", args{"code": "secret = 1"}, "")
	tool(t, bo, "execute_code", args{"code": "secret", "session": own["session"]}, "!there is no session")
	tool(t, bo, "execute_code", args{"code": "secret"}, "!NameError")
	task := tool(t, ann, "dispatch_background_task", args{"code": "from kernel import sleep\nsleep(0.3)\nprint('done')"}, "running")
	tool(t, bo, "get_background_task_status", args{"task_id": task["task_id"]}, "!no background task")
	tool(t, bo, "list_background_tasks", nil, "no background tasks")
	tool(t, ann, "save_state", args{"state_data": "ann's"}, "version")
	tool(t, bo, "get_state", nil, `"exists":false`)
	tool(t, ann, "save_skill", args{"name": "mine", "code": "def f():\n    return 'of ann'\n"}, "skills.mine")
	tool(t, bo, "list_skills", nil, "no skills")
	tool(t, bo, "search_skills", args{"query": "mine"}, "no skills")
	tool(t, bo, "get_skill", args{"name": "mine"}, "!not_found")
	tool(t, bo, "delete_skill", args{"name": "mine"}, "!not_found")
	tool(t, bo, "execute_code", args{"code": "from skills.mine import f"}, "!mine")
	tool(t, bo, "save_skill", args{"name": "mine", "code": "def f():\n    return 'of bo'\n"}, `version 1`)
	tool(t, ann, "execute_code", args{"code": "from skills.mine import f\nf()"}, "of ann")
	if _, err := bo.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: fmt.Sprintf("agentkernel://output/%v", task["task_id"])}); err == nil {
		t.Error("another user reads the output of a task")
	}
	if _, err := bo.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: fmt.Sprintf("agentkernel://output/%v", own["pid"])}); err == nil {
		t.Error("another user reads the output")
	}

	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_, _ = ann.CallTool(context.Background(), &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": "while True:\n    pass"}})
	}()
	pid, err := agentkernel.ParsePID(own["session"].(string))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program runs", func() bool {
		p, err := k.Process(t.Context(), pid)
		return err == nil && p.State == agentkernel.StateRunning
	})
	goodbye, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil) // in mid-call
	if err != nil {
		t.Fatal(err)
	}
	goodbye.Header.Set("Mcp-Session-Id", ann.ID())
	if res, err := (&http.Client{Transport: bearer(annToken)}).Do(goodbye); err != nil || res.StatusCode != http.StatusNoContent {
		t.Errorf("goodbye: %v %v", res, err)
	}
	<-busy
	eventually(t, "the session has ended with its client", func() bool {
		p, err := k.Process(t.Context(), pid)
		return err == nil && p.State.Terminal()
	})
	later := dialHTTP(t, url, annToken, nil)
	tool(t, later, "wait_for_background_task", args{"task_id": task["task_id"], "timeout": 10}, "completed")
	tool(t, later, "get_state", nil, "ann's")
}

func TestMCPTwoClientsSaveOneState(t *testing.T) {
	url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), ""))
	var all sync.WaitGroup
	big := strings.Repeat("x", 50_000)
	for i := range 2 {
		cs := dialHTTP(t, url, annToken, nil)
		all.Go(func() {
			for range 10 {
				tool(t, cs, "save_state", args{"state_data": args{"by": i, "x": big}}, "version")
				if got := tool(t, cs, "get_state", nil, `"exists":true`); len(fmt.Sprint(got["state"])) < len(big) {
					t.Errorf("half a state: %.100v", got)
				}
			}
		})
	}
	all.Wait()
	if got := tool(t, dialHTTP(t, url, annToken, nil), "get_state", nil, "exists"); got["version"] != 20.0 {
		t.Errorf("version %v", got["version"])
	}
}

// An assistant that dies takes its server along, whatever runs.
func TestMCPStdioClientGoneInMidCall(t *testing.T) {
	cmd := stdioCommand(t, home(t), "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":1},"arguments":{"code":"print('busy')\nwhile True:\n    pass"}}}`)
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), `"message":"busy"`) {
	}
	begun := time.Now()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil || time.Since(begun) > time.Minute {
		t.Errorf("the server ended after %s: %v", time.Since(begun), err)
	}
}

// A client that goes at any moment leaves no program behind, and no session: nobody would ever feed or end it.
func TestMCPClientsThatGoLeaveNothing(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		for i := range 60 {
			cs := connectMCP(t, mcpConfig(k, ""))
			in := args{"code": "while True:\n    pass"}
			if i%2 == 1 {
				in["session"] = "none"
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			_, _ = cs.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: in})
			cancel()
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
		}
		eventually(t, "nothing is left", func() bool {
			left, err := k.List(t.Context(), agentkernel.Filter{Unfinished: true})
			return err == nil && len(left) == 0
		})
	})
}

// Background tasks are processes: they survive the kernel and the server.
func TestMCPTasksSurviveARestart(t *testing.T) {
	dir := home(t)
	k := openEmbedded(t, dir)
	task := tool(t, connectMCP(t, mcpConfig(k, "")), "dispatch_background_task", args{"code": "from kernel import sleep\nprint('one')\nsleep(0.5)\nprint('two')"}, "running")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir)
	cs := connectMCP(t, mcpConfig(k, ""))
	tool(t, cs, "get_background_task_status", args{"task_id": task["task_id"]}, "unfinished")
	if _, err := k.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := tool(t, cs, "wait_for_background_task", args{"task_id": task["task_id"]}, "completed"); got["stdout"] != "one\ntwo\n" {
		t.Errorf("%v", got)
	}
}

// A client that asks for progress hears of it while the program runs, and gets what the program logs.
func TestMCPProgressAndLogging(t *testing.T) {
	var mu sync.Mutex
	var progress, logged []string
	opt := &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, fmt.Sprintf("%v %v %s", r.Params.ProgressToken, r.Params.Progress, r.Params.Message))
		},
		//nolint:staticcheck // logging is deprecated in the newest protocol and in use
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, fmt.Sprintf("%s %v", r.Params.Level, r.Params.Data))
		},
	}
	cs := dialHTTP(t, serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), "")), annToken, opt)
	//nolint:staticcheck // logging is deprecated in the newest protocol and in use
	if err := cs.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": "from kernel import sleep, log\nprint('step one')\nlog('half way', level='warning')\nwhile True: sleep(0.1)"}}
	params.SetProgressToken("p1")
	ctx, cancel := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() { _, _ = cs.CallTool(ctx, params) }) // it is cancelled
	eventually(t, "the notifications are here", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := len(progress)
		return n >= 2 && strings.HasSuffix(progress[n-2], " step one") && len(logged) >= 1
	})
	cancel()
	call.Wait()
	mu.Lock()
	defer mu.Unlock()
	for i, p := range progress {
		if !strings.HasPrefix(p, fmt.Sprintf("p1 %d ", i+1)) {
			t.Errorf("progress %q", progress)
		}
	}
	if !strings.Contains(logged[0], "half way") || !strings.HasPrefix(logged[0], "warning") {
		t.Errorf("log %q", logged)
	}
}

func TestMCPResourcesAndPrompts(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
	ran := tool(t, cs, "execute_code", args{"code": "for i in range(20000):\n    print('line', i)"}, "the whole output: agentkernel://output/")
	tool(t, cs, "save_skill", args{"name": "s", "code": "def f():\n    return 1\n"}, "skills.s")
	tool(t, cs, "save_state", args{"state_data": 5}, "version")
	for uri, want := range map[string]string{fmt.Sprintf("agentkernel://output/%v", ran["pid"]): "line 9999\n", "agentkernel://skill/s": "def f()", "agentkernel://state/state.json": "5"} {
		res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(res.Contents) != 1 || !strings.Contains(res.Contents[0].Text, want) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	tool(t, cs, "save_state", args{"state_data": strings.Repeat("x", 300_000), "state_file": "large"}, "version")
	tool(t, cs, "get_state", args{"state_file": "large"}, "300002 bytes and is left out here. The whole, page by page: agentkernel://state/large")
	if res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "agentkernel://state/large?from=262144"}); err != nil || len(res.Contents[0].Text) != 300_002-262_144 {
		t.Errorf("the second page of a state: %v", err)
	}
	for _, uri := range []string{"agentkernel://output/999", "agentkernel://output/x", "agentkernel://skill/none", "agentkernel://state/..%2Fx"} {
		if _, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s can be read", uri)
		}
	}
	prompt, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "program", Arguments: map[string]string{"task": "append a line to a file"}})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "append_line(path: str, text: str)") {
		t.Errorf("%+v %v", prompt, err)
	}
	if templates, err := cs.ListResourceTemplates(t.Context(), nil); err != nil || len(templates.ResourceTemplates) != 5 {
		t.Errorf("%v", err)
	}
}

// Nobody gets in without a token, nor a web page of elsewhere.
func TestMCPOverHTTPIsGuarded(t *testing.T) {
	url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), ""))
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	post := func(session string, headers map[string]string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		for k, v := range headers {
			if k == "Host" {
				req.Host = v
			}
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header.Get("Mcp-Session-Id")
	}
	auth := func(token string, more ...string) map[string]string {
		h := map[string]string{"Authorization": "Bearer " + token}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for name, c := range map[string]struct {
		headers map[string]string
		want    int
	}{
		"no token":       {nil, 401},
		"empty token":    {auth(""), 401},
		"wrong token":    {auth("token-of-ann-012345678"), 401},
		"right token":    {auth(annToken), 200},
		"foreign page":   {auth(annToken, "Origin", "https://evil.example"), 403},
		"null origin":    {auth(annToken, "Origin", "null"), 403},
		"lookalike":      {auth(annToken, "Origin", "http://localhost.evil.example"), 403},
		"file page":      {auth(annToken, "Origin", "file://"), 403},
		"local page":     {auth(annToken, "Origin", "http://localhost:3000"), 200},
		"named page":     {auth(annToken, "Origin", "https://app.example.org"), 200},
		"rebound name":   {auth(annToken, "Host", "evil.example"), 403},
		"foreign, no id": {map[string]string{"Origin": "https://evil.example"}, 403},
	} {
		if got, _ := post("", c.headers); got != c.want {
			t.Errorf("%s: HTTP %d, not %d", name, got, c.want)
		}
	}
	_, session := post("", auth(annToken))
	if got, _ := post(session, auth(boToken)); got == 200 || session == "" {
		t.Errorf("another user takes the session %q over: HTTP %d", session, got)
	}
}

// A request has up to 48 MiB.
func TestMCPLargeRequest(t *testing.T) {
	c := rawMCP{t, serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), "")), annToken}
	room := strings.Repeat(" ", 48<<20-len(rawHello))
	for body, want := range map[string]int{rawHello + room: http.StatusOK, rawHello + room + " ": http.StatusRequestEntityTooLarge} {
		if res := c.do("POST", "", body); res.StatusCode != want {
			t.Errorf("%d bytes: HTTP %d, not %d", len(body), res.StatusCode, want)
		}
	}
}

func TestMCPTokenFiles(t *testing.T) {
	got, err := mcpserver.ParseTokens("# people\nann " + annToken + "\n\nlonely-token-0123456789\n")
	if err != nil || got[annToken] != "ann" || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"a b c", "a/b " + annToken, annToken + "\n" + annToken} {
		if _, err := mcpserver.ParseTokens(bad); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	s, err := mcpserver.New(mcpConfig(openEmbedded(t, home(t)), ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range []map[string]string{nil, {"short": ""}} {
		if _, err := s.Handler(mcpserver.HTTPConfig{Tokens: tokens}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%v: %v", tokens, err)
		}
	}
}
