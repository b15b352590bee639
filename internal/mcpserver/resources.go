package mcpserver

import (
	"context"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// What a tool's answer leaves out is read under an address of its own.
const (
	outputPrefix = "agentkernel://output/"
	skillPrefix  = "agentkernel://skill/"
	statePrefix  = "agentkernel://state/"
)

// maxResource is how much of an output one reading gives.
const maxResource = 16 << 20

func outputURI(pid agentkernel.PID) string { return outputPrefix + pid.String() }

func (h *server) addResources(s *mcp.Server) {
	for _, r := range []struct {
		prefix, name, say, mime string
		read                    func(ctx context.Context, c *call, name string) (string, error)
	}{
		{outputPrefix, "output", "Everything that a program or task printed, by pid.", "text/plain", readOutput},
		{skillPrefix, "skill", "The code of a skill.", "text/x-python", readSkill},
		{statePrefix, "state", "A saved state file.", "application/json", readState},
	} {
		s.AddResourceTemplate(&mcp.ResourceTemplate{Name: r.name, URITemplate: r.prefix + "{name}", Description: r.say, MIMEType: r.mime},
			func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				call, err := h.reader(req)
				if err != nil {
					return nil, err
				}
				name, err := url.PathUnescape(strings.TrimPrefix(req.Params.URI, r.prefix))
				if err != nil {
					return nil, mcp.ResourceNotFoundError(req.Params.URI)
				}
				text, err := r.read(ctx, call, name)
				switch agentkernel.CodeOf(err) {
				case "":
				case agentkernel.CodeNotFound, agentkernel.CodeInvalid:
					return nil, mcp.ResourceNotFoundError(req.Params.URI)
				default:
					return nil, err
				}
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: r.mime, Text: strings.ToValidUTF8(text, "\ufffd")}}}, nil
			})
	}
}

// reader is the caller of a resource; the request has the same session and token as a call of a tool.
func (h *server) reader(req *mcp.ReadResourceRequest) (*call, error) {
	like := &mcp.CallToolRequest{Session: req.Session, Extra: req.Extra, Params: &mcp.CallToolParamsRaw{}}
	client, err := h.clients.of(like)
	if err != nil {
		return nil, err
	}
	return &call{h: h, req: like, client: client, tool: "resource"}, nil
}

// readOutput gives what a process printed: one of the client's sessions or tasks, or, where users are not
// told apart, any.
func readOutput(ctx context.Context, c *call, name string) (string, error) {
	pid, err := agentkernel.ParsePID(name)
	if err != nil {
		return "", err
	}
	if c.client.user != "" && c.h.clients.find(c.client.user, pid) == nil {
		if _, err := c.task(ctx, name); err != nil {
			return "", err
		}
	} else if p, err := c.kernel().Process(ctx, pid); err != nil || p.Namespace != c.namespace() {
		return "", agentkernel.Errorf(agentkernel.CodeNotFound, "resource", "there is no process %s", name)
	}
	var b strings.Builder
	err = c.kernel().Events(ctx, pid, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput && b.Len() < maxResource {
			b.WriteString(ev.Text)
		}
		return nil
	})
	if b.Len() >= maxResource {
		b.WriteString("\n[cut here]\n")
	}
	return b.String(), err
}

func readSkill(ctx context.Context, c *call, name string) (string, error) {
	s, err := c.kernel().Skill(ctx, c.namespace(), name, 0)
	return s.Code, err
}

func readState(ctx context.Context, c *call, name string) (string, error) {
	d, err := c.kernel().Document(ctx, c.namespace(), c.client.user, name)
	return string(d.Data), err
}
