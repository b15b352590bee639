package transport

import (
	"iter"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
)

// Tokens estimates how many tokens a text of so many bytes has. English has 4 bytes a token; it is for what a server does not
// say, and no bound.
func Tokens(bytes int64) int64 {
	const each = 4
	return (bytes + each - 1) / each
}

// An image is some hundred to some thousand tokens, whatever its bytes; each message has a few of its own.
const (
	imageTokens   = 1000
	messageTokens = 4
)

// InputTokens estimates how many input tokens a request has.
func InputTokens(r *llm.Request) int64 {
	size, others := int64(len(r.Schema)), int64(0)
	for _, t := range r.Tools {
		size += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	for _, m := range r.Messages {
		others += messageTokens
		for p := range Parts(m.Parts) {
			size += int64(len(p.Text))
			switch {
			case p.Image != nil:
				others += imageTokens
			case p.Call != nil:
				size += int64(len(p.Call.Name) + len(p.Call.Args))
			case p.Opaque != nil:
				size += int64(len(p.Opaque.Raw))
			}
		}
	}
	return Tokens(size) + others
}

// Parts are the parts of a message and those of the results among them.
func Parts(parts []llm.Part) iter.Seq[*llm.Part] {
	return func(yield func(*llm.Part) bool) { each(parts, yield) }
}

// each says whether there was no reason to stop. It is a function of its own so that nothing is allocated for a message.
func each(parts []llm.Part, yield func(*llm.Part) bool) bool {
	for i := range parts {
		if !yield(&parts[i]) || parts[i].Result != nil && !each(parts[i].Result.Parts, yield) {
			return false
		}
	}
	return true
}

// Asked are the texts of a request.
func Asked(r *llm.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, m := range r.Messages {
			for p := range Parts(m.Parts) {
				switch {
				case p.Text != "" && !yield(p.Text), p.Call != nil && !yield(string(p.Call.Args)),
					p.Image != nil && p.Image.URL != "" && !yield(p.Image.URL):
					return
				}
			}
		}
	}
}

// NewBody makes a body with room for what of a request has to be written.
func NewBody(r *llm.Request) *encode.Body {
	size, long := 512+len(r.Schema), 0
	for _, t := range r.Tools {
		size += 100 + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range r.Messages {
		size += 20
		for p := range Parts(m.Parts) {
			if size += 30; len(p.Escaped) >= encode.LongText {
				long++
			} else {
				size += 60 + len(p.Text) + len(p.Text)/20
			}
			switch {
			case p.Image != nil:
				size += len(p.Image.URL) + len(p.Image.Data)/3*4 + 4
			case p.Call != nil:
				size += len(p.Call.Name) + len(p.Call.ID) + len(p.Call.Args) + len(p.Call.Args)/8
			case p.Opaque != nil:
				size += len(p.Opaque.Raw)
			}
			if p.Fields != nil {
				size += len(p.Fields.Raw)
			}
		}
	}
	return encode.NewBody(size).Expect(long)
}
