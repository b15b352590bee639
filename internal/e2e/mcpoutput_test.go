package e2e_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/internal/tool/tooltest"
)

// call is a call of execute_code with all of its answer.
func execute(t *testing.T, cs *mcp.ClientSession, a args) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: a})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// readPages reads a resource to its end, page by page.
func readPages(t *testing.T, cs *mcp.ClientSession, uri string) (all string, pages int) {
	t.Helper()
	for {
		res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err == nil && res.CacheScope != "private" {
			t.Errorf("%s may be kept for others: %q", uri, res.CacheScope)
		}
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		all, pages = all+res.Contents[0].Text, pages+1
		next, ok := res.Contents[0].Meta["next"].(string)
		if !ok {
			return all, pages
		}
		if len(res.Contents) != 2 || !strings.Contains(res.Contents[1].Text, next) || len(res.Contents[0].Text) > 256<<10 {
			t.Fatalf("%s: a page of %d bytes, then %+v", uri, len(res.Contents[0].Text), res.Contents[1:])
		}
		uri = next
	}
}

// What an answer leaves out has an address at which it begins, in a session with output before it, too.
func TestMCPOutputIsReadInPages(t *testing.T) {
	overBothTransports(t, "", func(t *testing.T, cs *mcp.ClientSession) {
		tool(t, cs, "execute_code", args{"code": "print('ü' * 20)"}, "")
		res := execute(t, cs, args{"code": "import sys\nfor i in range(100000):\n    print('line', i, 'ü')\n    if i == 5000:\n        print('aside', file=sys.stderr)"})
		var want strings.Builder
		for i := range 100000 {
			fmt.Fprintf(&want, "line %d ü\n", i)
			if i == 5000 {
				want.WriteString("aside\n")
			}
		}
		text := res.Content[0].(*mcp.TextContent).Text
		var begin, uri string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "[") {
				begin = strings.Fields(line[strings.Index(line, "agentkernel:"):])[0]
			}
		}
		for _, c := range res.Content {
			if l, ok := c.(*mcp.ResourceLink); ok {
				uri = l.URI
			}
		}
		if len(text) > 40<<10 || begin == "" || uri == "" || len(res.Content) != 2 {
			t.Fatalf("%d bytes, %d contents, %q %q", len(text), len(res.Content), begin, uri)
		}
		all, pages := readPages(t, cs, uri)
		if all != want.String() || pages < 5 {
			t.Errorf("%d bytes in %d pages, not %d", len(all), pages, want.Len())
		}
		rest, _ := readPages(t, cs, strings.TrimSuffix(begin, ";"))
		if head, _, _ := strings.Cut(text, "\n["); head+rest != want.String() {
			t.Errorf("the rest does not begin where the answer was cut: %.60q after %.60q", rest, head[len(head)-60:])
		}
		if res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri + "0000000000"}); err != nil || res.Contents[0].Text != "" {
			t.Errorf("beyond the end: %+v %v", res, err)
		}
		for _, bad := range []string{"x", "-1", "99999999999999999999"} {
			if _, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "agentkernel://output/1?from=" + bad}); err == nil {
				t.Errorf("from=%s can be read", bad)
			}
		}
	})
}

// A large result is left out, shown as far as a model needs to see what it is, and readable as a whole.
func TestMCPResultIsReadInPages(t *testing.T) {
	overBothTransports(t, "", func(t *testing.T, cs *mcp.ClientSession) {
		for _, session := range []string{"none", ""} {
			res := execute(t, cs, args{"code": "'ü' * 300000", "session": session})
			text := res.Content[0].(*mcp.TextContent).Text
			link, ok := res.Content[len(res.Content)-1].(*mcp.ResourceLink)
			if !ok || len(text) > 4<<10 || !strings.HasPrefix(text, `result, the beginning: "üüü`) || !strings.Contains(text, link.URI) {
				t.Fatalf("%d bytes: %.200q, %+v", len(text), text, res.Content)
			}
			tool(t, cs, "execute_code", args{"code": "'another'"}, "another") // of a cell, not of the session as it is now
			if all, pages := readPages(t, cs, link.URI); all != strings.Repeat("ü", 300000) || pages != 3 {
				t.Errorf("session %q: %d bytes in %d pages", session, len(all), pages)
			}
		}
		got := tool(t, cs, "execute_code", args{"code": "list(range(30000))"}, "is left out")
		if got["result"] != nil {
			t.Error("the result is there all the same")
		}
		if _, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: fmt.Sprintf("agentkernel://result/%v?at=1", got["pid"])}); err == nil {
			t.Error("there is a result at the beginning of the journal")
		}
	})
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

// Images reach the model as images, whether a program made them or a tool gave them.
func TestMCPImages(t *testing.T) {
	png, err := base64.StdEncoding.DecodeString(onePixel)
	if err != nil {
		t.Fatal(err)
	}
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	overBothTransports(t, cfg, func(t *testing.T, cs *mcp.ClientSession) {
		give := fmt.Sprintf("import base64\npng = base64.b64decode('%s')\n", onePixel)
		for name, c := range map[string]struct {
			code, text string
			images     int
		}{
			"bytes":        {give + "png", `result: "[image 1: image/png, 70 bytes]"`, 1},
			"in a dict":    {give + "{'chart': png, 'rows': 3}", `{"chart":"[image 1: image/png, 70 bytes]","rows":3}`, 1},
			"of a tool":    {"from tools.test import image\nimage()", `[image 1: image/png`, 1},
			"other bytes":  {"b'\\x00\\x01'", `{"$bytes":"AAE="}`, 0},
			"text like it": {give + `'{"$bytes":"' + base64.b64encode(png).decode() + '"}'`, `result: "{\"$bytes\":`, 0},
			"many":         {give + "[png] * 10", `too many or too large to show: agentkernel://result/`, 8},
			"large":        {give + "png + b'x' * 5000000", `5000070 bytes, too many or too large to show`, 0},
			"jpeg and gif": {"[b'\\xff\\xd8\\xff\\xe0', b'GIF89a...', b'RIFF0000WEBPVP8 ']", `"[image 3: image/webp, 16 bytes]"`, 3},
		} {
			res := execute(t, cs, args{"code": c.code})
			images := 0
			for _, part := range res.Content {
				if i, ok := part.(*mcp.ImageContent); ok {
					if images++; i.MIMEType == "image/png" && !bytes.HasPrefix(i.Data, png[:8]) {
						t.Errorf("%s: %x", name, i.Data)
					}
				}
			}
			if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, c.text) || images != c.images || res.IsError {
				t.Errorf("%s: %d images, %.300q", name, images, text)
			}
		}
		task := tool(t, cs, "dispatch_background_task", args{"code": give + "png"}, "running")
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait_for_background_task", Arguments: args{"task_id": task["task_id"]}})
		if err != nil || len(res.Content) != 2 || !bytes.Equal(res.Content[1].(*mcp.ImageContent).Data, png) {
			t.Errorf("of a task: %+v %v", res, err)
		}
	})
}
