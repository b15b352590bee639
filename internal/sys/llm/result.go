package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
)

// result is an answer as the program gets it.
func result(op string, a *llm.Result) (json.RawMessage, error) {
	switch op {
	case "llm.embed":
		return vectors(a.Embeddings), nil
	case "llm.ask":
		if a.Data != nil {
			return journal.FromPlain(a.Data)
		}
		return journal.String(a.Text()), nil
	}
	return completion(a)
}

// vectors writes embeddings.
func vectors(e *llm.Embeddings) json.RawMessage {
	out := []byte{'['}
	for i, v := range e.Vectors {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		for j, f := range v {
			if j > 0 {
				out = append(out, ',')
			}
			out = journal.AppendFloat(out, float64(f))
		}
		out = append(out, ']')
	}
	return append(out, ']')
}

// completion writes an answer whole, in the form of journals: with sorted names.
func completion(a *llm.Result) (json.RawMessage, error) {
	data, cost := json.RawMessage("null"), json.RawMessage("null")
	if a.Data != nil {
		var err error
		if data, err = canonical(a.Data); err != nil {
			return nil, err
		}
	}
	if a.Cost != nil {
		cost = journal.AppendFloat(nil, float64(*a.Cost)/float64(agentkernel.USD))
	}
	calls := toolCalls(a.Message.Parts)
	text := journal.String(a.Text())
	out := append(make([]byte, 0, 3*len(text)+3*len(calls)+400), `{"cost_usd":`...)
	out = append(append(out, cost...), `,"data":`...)
	out = append(out, data...)
	if a.LeftOut > 0 {
		out = strconv.AppendInt(append(out, `,"left_out":`...), int64(a.LeftOut), 10)
	}
	out = append(out, `,"message":`...)
	out = append(appendMessage(out, &a.Message, calls), `,"model":`...)
	out = append(out, journal.String(a.Model)...)
	if a.Reused {
		out = append(out, `,"reused":true`...)
	}
	out = append(out, `,"stop":`...)
	out = append(append(out, journal.String(string(a.Stop))...), `,"text":`...)
	out = append(append(out, text...), `,"tool_calls":`...)
	out = append(append(out, calls...), `,"usage":`...)
	return append(appendUsage(out, &a.Usage), '}'), nil
}

// canonical is JSON of the outside world in the form of journals.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	guest, err := journal.FromPlain(raw)
	if err != nil {
		return nil, err
	}
	return journal.Canonical(guest)
}

// appendUsage writes tokens by class. What is an estimate says so.
func appendUsage(out []byte, u *llm.Usage) []byte {
	out = strconv.AppendInt(append(out, `{"cache_read":`...), u.CacheRead, 10)
	out = strconv.AppendInt(append(out, `,"cache_write":`...), u.CacheWrite+u.CacheWrite1h, 10)
	out = strconv.AppendBool(append(out, `,"estimated":`...), u.Estimated)
	out = strconv.AppendInt(append(out, `,"input":`...), u.Input, 10)
	out = strconv.AppendInt(append(out, `,"output":`...), u.Output, 10)
	return append(strconv.AppendInt(append(out, `,"reasoning":`...), u.Reasoning, 10), '}')
}

// toolCalls writes what the model wants of tools.
func toolCalls(parts []llm.Part) json.RawMessage {
	out := []byte{'['}
	for _, p := range parts {
		c := p.Call
		if c == nil {
			continue
		}
		args, err := canonical(c.Args)
		if err != nil { // as with what is no JSON at all: the answer was paid for, and the model is told
			args = journal.String(string(c.Args))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `{"arguments":`...), args...)
		if p.Fields != nil {
			out = appendFields(append(out, ','), p.Fields)
		}
		out = append(append(out, `,"id":`...), journal.String(c.ID)...)
		out = append(append(append(out, `,"name":`...), journal.String(c.Name)...), '}')
	}
	return append(out, ']')
}

// appendFields writes what a dialect says of a part besides, as a member.
func appendFields(out []byte, f *llm.Opaque) []byte {
	out = append(append(out, `"fields":{"dialect":`...), journal.String(f.Dialect)...)
	out = append(append(out, `,"raw":`...), journal.String(string(f.Raw))...)
	return append(out, '}')
}

// appendMessage writes a message as llm.complete takes it: with parts, if something in it is no text.
func appendMessage(out []byte, m *llm.Message, calls json.RawMessage) []byte {
	out = append(out, `{"content":`...)
	if slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Opaque != nil || p.Image != nil || p.Text != "" && p.Fields != nil }) {
		out = append(out, '[')
		for i := range m.Parts {
			out = appendPart(out, &m.Parts[i])
		}
		out = append(bytes.TrimSuffix(out, []byte{','}), ']')
	} else {
		text := ""
		for i := range m.Parts {
			text += m.Parts[i].Text
		}
		out = append(out, journal.String(text)...)
	}
	out = append(out, `,"role":"assistant"`...)
	if len(calls) > len("[]") {
		out = append(append(out, `,"tool_calls":`...), calls...)
	}
	return append(out, '}')
}

// appendPart writes a part with a comma behind it, if it is not a call, which is said elsewhere.
func appendPart(out []byte, p *llm.Part) []byte {
	switch {
	case p.Opaque != nil:
		out = append(append(out, `{"dialect":`...), journal.String(p.Opaque.Dialect)...)
		out = append(append(out, `,"raw":`...), journal.String(string(p.Opaque.Raw))...)
		return append(out, `,"type":"opaque"},`...)
	case p.Image != nil && p.Image.URL != "":
		out = append(append(out, `{"type":"image","url":`...), journal.String(p.Image.URL)...)
		return append(out, `},`...)
	case p.Image != nil:
		out = base64.StdEncoding.AppendEncode(append(out, `{"data":{"$bytes":"`...), p.Image.Data)
		return append(out, `"},"type":"image"},`...)
	case p.Text != "":
		out = append(out, '{')
		if p.Fields != nil {
			out = append(appendFields(out, p.Fields), ',')
		}
		out = append(append(out, `"text":`...), journal.String(p.Text)...)
		return append(out, `,"type":"text"},`...)
	}
	return out
}
