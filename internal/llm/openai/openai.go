// Package openai speaks the two protocols of OpenAI, chat completions and responses, and those of servers that speak the
// first their own way: Azure, vLLM, OpenRouter, and whatever is behind a base URL. It must never change what a model wrote
// before it is sent back.
package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// Flavour is a kind of server that speaks chat completions.
type Flavour string

// The flavours.
const (
	OpenAI     Flavour = "openai" // and all others
	Azure      Flavour = "azure"
	VLLM       Flavour = "vllm"
	OpenRouter Flavour = "openrouter"
)

// server is what both protocols share.
type server struct {
	*transport.Server
	flavour  Flavour
	official bool   // it is OpenAI's own, or Azure's: it knows the newest fields, and refuses old ones
	path     string // behind the base, up to the name of the call
	query    string
	model    string // that each request goes to, whatever it says; "": its own
}

func newServer(opts llm.Options, f Flavour) (*server, error) {
	d := transport.Dialect{
		BaseURL:    map[Flavour]string{OpenAI: "https://api.openai.com/v1", VLLM: "http://localhost:8000/v1", OpenRouter: "https://openrouter.ai/api/v1"}[f],
		Auth:       func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		RequestIDs: []string{"X-Request-Id", "Apim-Request-Id"},
		Limits:     limits,
		Fault:      fault,
	}
	s := &server{flavour: f}
	if f == Azure {
		d.Auth = func(h http.Header, key string) { h.Set("Api-Key", key) }
		if opts.BaseURL == "" {
			return nil, errors.New("azure has no address of its own: set the base URL to the endpoint of the resource")
		}
		if opts.APIVersion != "" {
			s.query = "?api-version=" + url.QueryEscape(opts.APIVersion)
		}
		// The newer API is like OpenAI's: its base ends with /openai/v1, and the deployment is the model.
		s.model = opts.Deployment
		if base := strings.TrimRight(opts.BaseURL, "/"); !strings.HasSuffix(base, "/v1") {
			if opts.Deployment == "" || opts.APIVersion == "" {
				return nil, errors.New("azure needs a deployment and an API version, or a base URL that ends with /openai/v1")
			}
			s.path = "/openai/deployments/" + url.PathEscape(opts.Deployment)
			if strings.HasSuffix(base, "/openai") {
				s.path = strings.TrimPrefix(s.path, "/openai")
			}
		}
	}
	base, err := transport.New(opts, d)
	if err != nil {
		return nil, err
	}
	s.Server = base
	s.official = f == Azure || base.Official("openai.com")
	return s, nil
}

// modelOf is the model that a request goes to.
func (s *server) modelOf(model string) string {
	if s.model != "" {
		return s.model
	}
	return model
}

func (s *server) call(name string) string { return s.path + name + s.query }

// limits reads x-ratelimit-{limit,remaining,reset}-{requests,tokens,project-tokens}. OpenRouter has one limit, without a name.
func limits(h http.Header, now time.Time) (list []llm.Limit) {
	for _, l := range []struct{ suffix, what string }{
		{"-Requests", llm.LimitRequests}, {"", llm.LimitRequests}, {"-Tokens", llm.LimitTokens}, {"-Project-Tokens", llm.LimitTokens},
	} {
		most, left, reset := h.Get("X-Ratelimit-Limit"+l.suffix), h.Get("X-Ratelimit-Remaining"+l.suffix), h.Get("X-Ratelimit-Reset"+l.suffix)
		if most == "" && left == "" && reset == "" { // to find out that nothing is a number, a time or a duration takes longer than all else
			continue
		}
		until := transport.Until(reset, now)
		const farMilliseconds = 1e11 // as seconds, more than 3,000 years: it is a time in milliseconds since 1970
		if ms, err := strconv.ParseFloat(reset, 64); err == nil && ms > farMilliseconds {
			until = max(0, time.UnixMilli(int64(ms)).Sub(now))
		}
		list = transport.Tighter(list, llm.Limit{
			What: l.what, Limit: transport.Number(most), Remaining: transport.Number(left), Reset: until,
		})
	}
	return list
}

// args is what a model wrote as arguments: JSON, or a JSON text of what is none.
func args(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	raw, _ := encode.NewBody(len(text) + 2).String(text).Bytes()
	return raw
}

// argsText is what args made arguments of.
func argsText(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// imageURL writes the address of a picture: its own, or one that has its bytes.
func imageURL(b *encode.Body, i *llm.Image) {
	if len(i.Data) == 0 {
		b.String(i.URL)
		return
	}
	kind := i.Type
	if kind == "" {
		kind = http.DetectContentType(i.Data)
	}
	b.Data("data:"+kind+";base64,", i.Data)
}

// done is the body, or the error that makes it none. Nothing was sent.
func done(b *encode.Body) ([][]byte, error) {
	body, err := b.Pieces()
	var already *llm.Error
	if err == nil {
		return body, nil
	}
	if errors.As(err, &already) {
		return nil, already
	}
	return nil, &llm.Error{Kind: llm.Invalid, Message: err.Error()}
}

func unsupported(text string) error { return &llm.Error{Kind: llm.Unsupported, Message: text} }

// said says whether a field is there.
func said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// form is how a dialect writes what messages consist of.
type form struct {
	result    func(*encode.Body, *llm.ToolResult)
	assistant func(*encode.Body, *llm.Message)
	content   func(*encode.Body, []llm.Part) // what the model is told
}

// message writes a message, which depends on no other.
func (f form) message(b *encode.Body, m *llm.Message) {
	for _, p := range m.Parts {
		if p.Result != nil {
			f.result(b, p.Result)
		}
	}
	switch m.Role {
	case llm.ToolRole:
		if slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Text != "" || p.Image != nil }) {
			b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message of tools has something else than results"})
		}
	case llm.Assistant:
		f.assistant(b, m)
	case llm.System, llm.User:
		said := only(m.Parts, func(p *llm.Part) bool { return p.Text != "" || p.Image != nil })
		if len(said) == 0 && len(m.Parts) > 0 {
			return
		}
		b.Open('{').Key("role").String(string(m.Role)).Key("content")
		f.content(b, said)
		b.Close('}')
	default:
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message has no role"})
	}
}

// only gives the parts of which says is true: the same list where that is all of them, as it nearly always is.
func only(parts []llm.Part, says func(*llm.Part) bool) (some []llm.Part) {
	n := 0
	for i := range parts {
		if says(&parts[i]) {
			n++
		}
	}
	if n == len(parts) {
		return parts
	}
	for i := range parts {
		if says(&parts[i]) {
			some = append(some, parts[i])
		}
	}
	return some
}
