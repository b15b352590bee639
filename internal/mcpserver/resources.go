package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// What a tool's answer leaves out is read under an address of its own, page by page.
const (
	outputPrefix = "agentkernel://output/"
	resultPrefix = "agentkernel://result/"
	skillPrefix  = "agentkernel://skill/"
	statePrefix  = "agentkernel://state/"
)

// maxPage is how many bytes one reading gives; the answer names the address of the next page.
const maxPage = 256 << 10

// outputURI is where what a process printed is read from a byte on.
func outputURI(pid agentkernel.PID, from int64) string {
	uri := outputPrefix + pid.String()
	if from > 0 {
		uri += "?from=" + strconv.FormatInt(from, 10)
	}
	return uri
}

// resultURI is where the result of a process is read; at is the journal position of the result of one cell of
// a session, 0: that of the process.
func resultURI(pid agentkernel.PID, at int64) string {
	uri := resultPrefix + pid.String()
	if at > 0 {
		uri += "?at=" + strconv.FormatInt(at, 10)
	}
	return uri
}

// wanted says what of a resource is read.
type wanted struct {
	name     string
	from, at int64
}

// content is a resource as far as it was read: text begins at byte `from` of it.
type content struct {
	text  string
	blob  []byte // not text: all of it
	mime  string // "": as the template says
	total int64  // bytes of the whole
}

func (h *server) addResources(s *mcp.Server) {
	for _, r := range []struct {
		prefix, variables, name, say, mime string
		read                               func(ctx context.Context, c *call, w wanted) (content, error)
	}{
		{outputPrefix, "{pid}{?from}", "output", "Everything that a program or task printed.", "text/plain", readOutput},
		{artifactPrefix, "{pid}/{+path}{?from}", "artifact", "A file that a program or task made or changed.", "application/octet-stream", readArtifact},
		{resultPrefix, "{pid}{?at,from}", "result", "The whole result of a program or task.", "application/json", readResult},
		{skillPrefix, "{name}{?from}", "skill", "The code of a skill.", "text/x-python", readSkill},
		{statePrefix, "{name}{?from}", "state", "A saved state file.", "application/json", readState},
	} {
		s.AddResourceTemplate(&mcp.ResourceTemplate{Name: r.name, URITemplate: r.prefix + r.variables, Description: r.say, MIMEType: r.mime},
			func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				call, err := h.reader(req)
				if err != nil {
					return nil, err
				}
				w, ok := parseWanted(strings.TrimPrefix(req.Params.URI, r.prefix))
				if !ok {
					return nil, mcp.ResourceNotFoundError(req.Params.URI)
				}
				got, err := r.read(ctx, call, w)
				switch agentkernel.CodeOf(err) {
				case "":
				case agentkernel.CodeNotFound, agentkernel.CodeInvalid:
					return nil, mcp.ResourceNotFoundError(req.Params.URI)
				default:
					return nil, errors.New(agentkernel.AsError(err, "", "").TextFor(agentkernel.OverMCP)) // with what to do
				}
				if got.mime == "" {
					got.mime = r.mime
				}
				return &mcp.ReadResourceResult{Contents: got.pages(req.Params.URI, w.from)}, nil
			})
	}
}

// parseWanted reads what stands behind the prefix of an address.
func parseWanted(rest string) (wanted, bool) {
	path, query, _ := strings.Cut(rest, "?")
	name, err := url.PathUnescape(path)
	if err != nil {
		return wanted{}, false
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return wanted{}, false
	}
	w := wanted{name: name}
	for key, into := range map[string]*int64{"from": &w.from, "at": &w.at} {
		if text := values.Get(key); text != "" {
			if *into, err = strconv.ParseInt(text, 10, 64); err != nil || *into < 0 {
				return wanted{}, false
			}
		}
	}
	return w, true
}

// pages is the page that was read and, if it is not the last, where the next one is.
func (c *content) pages(uri string, from int64) []*mcp.ResourceContents {
	if c.blob != nil {
		return []*mcp.ResourceContents{{URI: uri, MIMEType: c.mime, Blob: c.blob}}
	}
	text := c.text
	if len(text) > maxPage {
		cut := maxPage
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	page := &mcp.ResourceContents{URI: uri, MIMEType: c.mime, Text: strings.ToValidUTF8(text, "\ufffd")}
	next := from + int64(len(text))
	if next >= c.total || text == "" {
		return []*mcp.ResourceContents{page}
	}
	base, query, _ := strings.Cut(uri, "?")
	values, _ := url.ParseQuery(query) // it was read before
	values.Set("from", strconv.FormatInt(next, 10))
	more := base + "?" + values.Encode()
	page.Meta = mcp.Meta{"next": more, "total": c.total}
	return []*mcp.ResourceContents{page, {URI: more, MIMEType: "text/plain",
		Text: fmt.Sprintf("[bytes %d to %d of %d; the next page: %s]", from, next, c.total, more)}}
}

// whole is a text that is at hand, from a byte on.
func whole(text, mime string, from int64) content {
	c := content{mime: mime, total: int64(len(text))}
	if from < c.total {
		c.text = text[from:]
	}
	return c
}

// reader is the caller of a resource; the request has the same session and token as a call of a tool.
func (h *server) reader(req *mcp.ReadResourceRequest) (*call, error) {
	like := &mcp.CallToolRequest{Session: req.Session, Extra: req.Extra, Params: &mcp.CallToolParamsRaw{}}
	client, err := h.clients.of(req.Session, req.Extra)
	if err != nil {
		return nil, err
	}
	return &call{h: h, req: like, client: client, tool: "resource"}, nil
}

// readable finds a process of the client's namespace.
func (c *call) readable(ctx context.Context, name string) (agentkernel.Process, error) {
	pid, err := agentkernel.ParsePID(name)
	if err != nil {
		return agentkernel.Process{}, err
	}
	p, err := c.kernel().Process(ctx, pid)
	if err == nil && p.Namespace != c.namespace() {
		err = agentkernel.Errorf(agentkernel.CodeNotFound, "resource", "there is no process %s", name)
	}
	return p, err
}

var errEnough = errors.New("the page is full")

// readOutput gives what a process printed.
func readOutput(ctx context.Context, c *call, w wanted) (content, error) {
	p, err := c.readable(ctx, w.name)
	if err != nil {
		return content{}, err
	}
	var b strings.Builder
	skip := w.from
	err = c.kernel().Events(ctx, p.PID, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventOutput {
			return nil
		}
		over := min(skip, int64(len(ev.Text)))
		skip -= over
		b.WriteString(ev.Text[over:])
		if b.Len() > maxPage {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return content{}, err
	}
	return content{text: b.String(), total: max(p.Usage.Output, w.from+int64(b.Len()))}, nil
}

// readResult gives the result of a process, or of one cell of a session: a text as it is, anything else as JSON.
func readResult(ctx context.Context, c *call, w wanted) (content, error) {
	p, err := c.readable(ctx, w.name)
	if err != nil {
		return content{}, err
	}
	result := p.Result
	if w.at > 0 {
		result = nil
		err = c.kernel().Events(ctx, p.PID, w.at, false, func(ev agentkernel.Event) error {
			if ev.Seq == w.at && ev.Idle != nil {
				result = ev.Idle.Result
			}
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return content{}, err
		}
	}
	if len(result) == 0 {
		return content{}, agentkernel.Errorf(agentkernel.CodeNotFound, "resource", "process %s has no such result", w.name)
	}
	var text string
	if json.Unmarshal(result, &text) == nil {
		return whole(text, "text/plain", w.from), nil
	}
	return whole(string(result), "", w.from), nil
}

func readSkill(ctx context.Context, c *call, w wanted) (content, error) {
	s, err := c.kernel().Skill(ctx, c.namespace(), w.name, 0)
	return whole(s.Code, "", w.from), err
}

func readState(ctx context.Context, c *call, w wanted) (content, error) {
	d, err := c.documents().Document(ctx, c.h.cfg.Spec.Namespace, c.client.user, w.name)
	return whole(string(d.Data), "", w.from), err
}
