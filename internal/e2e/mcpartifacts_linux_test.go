package e2e_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// leaveFiles is a program that leaves a text, a picture, bytes that are neither, and a change.
const leaveFiles = `
import os
os.mkdir("out")
with open("out/ä b.md", "w") as f:
    f.write("# ü\n" * 100000)
with open("dot.png", "wb") as f:
    f.write(bytes.fromhex("89504e470d0a1a0a") + bytes(10))
with open("no.png", "wb") as f:
    f.write(b"not a picture")
with open("old.txt", "a") as f:
    f.write("new\n")
os.remove("gone.txt")
print("done")
`

// What a program leaves in its folder is listed, pictures among it are shown, and each file has an address; of an
// error, and of a background task, too.
func TestMCPArtifacts(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	files := map[string]string{"old.txt": "old\n", "gone.txt": "x"}
	dir := folder(t, files)
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
	cfg.Spec.Workspace = &agentkernel.Workspace{Path: dir}
	url := serveHTTP(t, cfg)
	cs := dialHTTP(t, url, annToken, nil)

	check := func(what string, res *mcp.CallToolResult) {
		t.Helper()
		text := res.Content[0].(*mcp.TextContent).Text
		for _, want := range []string{"dot.png  18 bytes  image/png", "out/ä b.md  500000 bytes  text/markdown", "old.txt  8 bytes"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", what, want, text)
			}
		}
		if strings.Contains(text, "gone.txt") {
			t.Errorf("%s: a deleted file is listed: %s", what, text)
		}
		structured := res.StructuredContent.(map[string]any)
		if list, _ := structured["artifacts"].([]any); len(list) != 4 {
			t.Errorf("%s: %v", what, structured["artifacts"])
		}
		var pictures, links int
		for _, c := range res.Content {
			switch c := c.(type) {
			case *mcp.ImageContent:
				pictures++
				if c.MIMEType != "image/png" || len(c.Data) != 18 {
					t.Errorf("%s: %s of %d bytes", what, c.MIMEType, len(c.Data))
				}
			case *mcp.ResourceLink:
				links++
				checkLinked(t, cs, c)
			}
		}
		if pictures != 1 || links != 4 {
			t.Errorf("%s: %d pictures, %d links", what, pictures, links)
		}
	}
	res := execute(t, cs, args{"code": leaveFiles, "session": "none"})
	check("a program", res)
	if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "; for whoever runs agentkernel: agentkernel apply 1 puts") {
		t.Errorf("%s", text)
	}
	if res = execute(t, cs, args{"code": leaveFiles + "1/0", "session": "none"}); !res.IsError {
		t.Error("no error")
	}
	check("a program that fails", res)
	res = execute(t, cs, args{"code": leaveFiles})
	check("a cell of a session", res)
	if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, `session "new" ends; for whoever`) {
		t.Errorf("%s", text)
	}
	if res = execute(t, cs, args{"code": "os.listdir('out')"}); len(res.StructuredContent.(map[string]any)["artifacts"].([]any)) != 4 || len(res.Content) != 5 {
		t.Errorf("the next cell, which is not shown the picture again: %+v", res)
	}
	id := tool(t, cs, "dispatch_background_task", args{"code": leaveFiles}, "running")["task_id"]
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait_for_background_task", Arguments: args{"task_id": id}})
	if err != nil {
		t.Fatal(err)
	}
	check("a task", res)
	holds(t, dir, files)

	foreign := dialHTTP(t, url, boToken, nil)
	for _, c := range []struct {
		cs  *mcp.ClientSession
		uri string
	}{
		{foreign, "agentkernel://artifact/1/old.txt"}, {cs, "agentkernel://artifact/1/none"}, {cs, "agentkernel://artifact/1"}, {cs, "agentkernel://artifact/1/out"},
		{cs, "agentkernel://artifact/1/../kernel.db"}, {cs, "agentkernel://artifact/1/%2e%2e/%2e%2e/kernel.db"}, {cs, "agentkernel://artifact/99/old.txt"},
	} {
		if got, err := c.cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: c.uri}); err == nil {
			t.Errorf("%s: %+v", c.uri, got.Contents[0])
		}
	}
}

// checkLinked reads what a link names.
func checkLinked(t *testing.T, cs *mcp.ClientSession, l *mcp.ResourceLink) {
	t.Helper()
	switch l.Name {
	case "dot.png", "no.png":
		got, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: l.URI})
		if err != nil || int64(len(got.Contents[0].Blob)) != *l.Size || got.Contents[0].MIMEType != l.MIMEType {
			t.Errorf("%s: %v %+v", l.URI, err, got)
		}
		return
	}
	text, pages := readPages(t, cs, l.URI)
	want := map[string]string{"out/ä b.md": strings.Repeat("# ü\n", 100000), "old.txt": "old\nnew\n", "/volumes/vault/v.txt": "in a volume"}[l.Name]
	if text != want || pages != 1+len(want)/(256<<10) {
		t.Errorf("%s: %d bytes in %d pages, not %d", l.URI, len(text), pages, len(want))
	}
}

// Files of a volume are in their folder once the program has ended well, and are read under their own names.
func TestMCPArtifactOfAVolume(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
	vault := folder(t, nil)
	cfg.Spec.Volumes = []agentkernel.Volume{{Name: "vault", Path: vault}}
	cs := connectMCP(t, cfg)
	res := execute(t, cs, args{"code": "open('/volumes/vault/v.txt', 'w').write('in a volume')"})
	text := res.Content[0].(*mcp.TextContent).Text
	if !strings.Contains(text, "/volumes/vault/v.txt  11 bytes") || strings.Contains(text, "kept apart") || len(res.Content) != 2 {
		t.Fatalf("%d parts: %s", len(res.Content), text)
	}
	checkLinked(t, cs, res.Content[1].(*mcp.ResourceLink))
	holds(t, vault, map[string]string{"v.txt": "in a volume"})
}

// What publishes is the end of a program, so each has its own: files last, variables do not.
func TestMCPPublishes(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
	dir := folder(t, nil)
	cfg.Spec.Workspace = &agentkernel.Workspace{Path: dir, Publish: true}
	cs := connectMCP(t, cfg)
	got := tool(t, cs, "execute_code", args{"code": "x = 1\nopen('a.txt', 'w').write('one')"}, "variables do not last")
	if got["session"] != nil {
		t.Errorf("it is a session's: %v", got)
	}
	holds(t, dir, map[string]string{"a.txt": "one"})
	tool(t, cs, "execute_code", args{"code": "open('b.txt', 'w').write(open('a.txt').read())\nx"}, "!NameError")
	holds(t, dir, map[string]string{"a.txt": "one"}) // what fails publishes nothing
}

// A file that is too large for an answer, and not text, is refused with the way to it.
func TestMCPLargeArtifact(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
	cfg.Spec.Workspace = &agentkernel.Workspace{Path: folder(t, nil)}
	cs := connectMCP(t, cfg)
	res := execute(t, cs, args{"code": "for i in range(50):\n    open(f'{i:02}.txt', 'w').write('x')\nopen('00.png', 'wb').write(bytes.fromhex('89504e470d0a1a0a') + bytes(9 << 20))"})
	text := res.Content[0].(*mcp.TextContent).Text
	if !strings.Contains(text, "00.png  9437192 bytes  image/png") || !strings.Contains(text, "11 more files are not listed here; for whoever runs agentkernel: agentkernel artifacts 1 lists them") {
		t.Errorf("%s", text)
	}
	for _, c := range res.Content {
		if i, ok := c.(*mcp.ImageContent); ok {
			t.Errorf("an image of %d bytes was sent", len(i.Data))
		}
	}
	_, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "agentkernel://artifact/1/00.png"})
	if err == nil || !strings.Contains(err.Error(), "agentkernel get 1 00.png") {
		t.Errorf("%v", err)
	}
}
