package router

import (
	"slices"

	"agentkernel/internal/llm"
)

// What is left of a conversation that was too long: so much of it where nobody knows how long it may be, else so much of what the model
// takes, and in no case more than a part of what was refused.
const (
	leftUnknown = 0.5
	leftOfKnown = 0.85
	leftAtMost  = 0.9
)

// shrink leaves the oldest turns out of a query that was too long for a model. false: there is nothing that could be left out, or the query
// does not want it.
func (p *plan) shrink(d *deployment, tokens int64) bool {
	if !p.q.Shrink || p.leftOut > 0 {
		return false
	}
	part := leftUnknown
	if takes := d.model.Context; takes > 0 && tokens > 0 {
		out := p.q.Request.MaxTokens
		if out == 0 {
			out = d.model.Cap()
		}
		part = leftOfKnown * float64(max(takes-out, takes/4)) / float64(tokens)
	}
	var messages []llm.Message
	if messages, p.leftOut = newest(p.q.Request.Messages, min(part, leftAtMost)); p.leftOut == 0 {
		return false
	}
	p.q.Request.Messages = messages
	p.size = sizeOf(p.q)
	return true
}

// newest is a conversation without its oldest turns, and how many messages these have. What the system says stays, and the last turn: a
// turn begins where the user speaks, so that no result of a tool loses its call.
func newest(all []llm.Message, part float64) (left []llm.Message, leftOut int) {
	var whole int64
	begins := 0 // the last turn
	for i := range all {
		whole += bytesOf(&all[i])
		if all[i].Role == llm.User {
			begins = i
		}
	}
	fits, gone := int64(part*float64(whole)), make([]bool, len(all))
	for i := range begins {
		m := &all[i]
		if m.Role == llm.System {
			continue
		}
		if whole <= fits && m.Role == llm.User {
			break
		}
		whole -= bytesOf(m)
		gone[i] = true
		leftOut++
	}
	if leftOut == 0 {
		return all, 0
	}
	for i := range all {
		if !gone[i] {
			left = append(left, all[i])
		}
	}
	return slices.Clip(left), leftOut
}

// bytesOf is the size of a message, with what stands around it.
func bytesOf(m *llm.Message) int64 {
	var s size
	s.add(m.Parts)
	return s.bytes() + aroundMessage
}
