package router

import (
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/sched/traffic"
)

// size is how large a query is, in bytes.
type size struct {
	content  traffic.Content
	messages int64
	images   int64
	tools    bool
}

func sizeOf(q *llm.Query) (s size) {
	if q.Embed != nil {
		s.messages, s.content.Text = int64(len(q.Embed.Texts)), q.Embed.Size()
		return s
	}
	r := &q.Request
	for i := range r.Messages {
		s.messages++
		s.add(r.Messages[i].Parts)
	}
	for i := range r.Tools {
		s.content.Code += int64(len(r.Tools[i].Schema))
		s.content.Text += int64(len(r.Tools[i].Name) + len(r.Tools[i].Description))
	}
	s.content.Code += int64(len(r.Schema) + len(r.ToolChoice))
	for _, stop := range r.Stop {
		s.content.Text += int64(len(stop))
	}
	for name, value := range r.Extra { // a grammar, or another schema
		s.content.Code += int64(len(name) + len(value))
	}
	s.tools = len(r.Tools) > 0 || len(r.Schema) > 0
	return s
}

// bytes is all of it.
func (s *size) bytes() int64 { return s.content.Text + s.content.Code + s.content.Image }

// add counts parts.
func (s *size) add(parts []llm.Part) {
	for i := range parts {
		p := &parts[i]
		if p.Fields != nil {
			s.content.Code += int64(len(p.Fields.Raw))
		}
		switch {
		case p.Image != nil:
			s.images++
			s.content.Image += int64(len(p.Image.Data))
		case p.Call != nil:
			s.content.Code += int64(len(p.Call.Args) + len(p.Call.Name) + len(p.Call.ID))
		case p.Result != nil:
			s.content.Code += int64(len(p.Result.ID))
			s.add(p.Result.Parts)
		case p.Opaque != nil:
			s.content.Code += int64(len(p.Opaque.Raw))
		default:
			s.content.Text += int64(len(p.Text))
		}
	}
}

// What a request may have beside its content, in tokens: what stands around a message, what a provider says to its model of tools and
// schemas, and a picture, which costs some models thirty times what it costs others.
const (
	aroundMessage = 16
	aroundTools   = 1024
	picture       = 6_000
	dearPicture   = 50_000
)

// most is how many tokens a query has at most: no token is shorter than a byte.
func (s *size) most(model string) int64 {
	n := s.content.Text + s.content.Code + aroundMessage*(s.messages+1)
	if s.tools {
		n += aroundTools
	}
	each := int64(picture)
	if strings.Contains(model, "mini") || strings.Contains(model, "nano") {
		each = dearPicture
	}
	return n + each*s.images
}
