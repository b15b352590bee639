package llm

import (
	"encoding/base64"
	"encoding/json"
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

// completion writes an answer whole.
func completion(a *llm.Result) (json.RawMessage, error) {
	data, cost := json.RawMessage("null"), json.RawMessage("null")
	if a.Data != nil {
		var err error
		if data, err = journal.FromPlain(a.Data); err != nil {
			return nil, err
		}
	}
	if a.Cost != nil {
		cost = journal.AppendFloat(nil, float64(*a.Cost)/float64(agentkernel.USD))
	}
	calls, err := toolCalls(a.Message.Parts)
	if err != nil {
		return nil, err
	}
	message, err := messageOf(&a.Message, calls)
	if err != nil {
		return nil, err
	}
	out := []byte(`{"cost_usd":`)
	out = append(append(out, cost...), `,"data":`...)
	out = append(out, data...)
	if a.LeftOut > 0 {
		out = strconv.AppendInt(append(out, `,"left_out":`...), int64(a.LeftOut), 10)
	}
	out = append(out, `,"message":`...)
	out = append(append(out, message...), `,"model":`...)
	out = append(out, journal.String(a.Model)...)
	if a.Reused {
		out = append(out, `,"reused":true`...)
	}
	out = append(out, `,"stop":`...)
	out = append(append(out, journal.String(string(a.Stop))...), `,"text":`...)
	out = append(append(out, journal.String(a.Text())...), `,"tool_calls":`...)
	out = append(append(out, calls...), `,"usage":`...)
	out = append(append(out, usage(&a.Usage)...), '}')
	return journal.Canonical(out)
}

// usage writes tokens by class. What is an estimate says so.
func usage(u *llm.Usage) []byte {
	out := []byte(`{`)
	for _, n := range []struct {
		name string
		n    int64
	}{{"cache_read", u.CacheRead}, {"cache_write", u.CacheWrite + u.CacheWrite1h}, {"input", u.Input}, {"output", u.Output}, {"reasoning", u.Reasoning}} {
		out = append(append(append(out, '"'), n.name...), `":`...)
		out = append(strconv.AppendInt(out, n.n, 10), ',')
	}
	out = append(out, `"estimated":`...)
	return append(strconv.AppendBool(out, u.Estimated), '}')
}

// toolCalls writes what the model wants of tools.
func toolCalls(parts []llm.Part) (json.RawMessage, error) {
	out := []byte{'['}
	for _, p := range parts {
		c := p.Call
		if c == nil {
			continue
		}
		args, err := journal.FromPlain(c.Args)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `{"arguments":`...), args...)
		out = appendFields(out, p.Fields)
		out = append(append(out, `,"id":`...), journal.String(c.ID)...)
		out = append(append(append(out, `,"name":`...), journal.String(c.Name)...), '}')
	}
	return append(out, ']'), nil
}

// appendFields writes what a dialect says of a part besides.
func appendFields(out []byte, f *llm.Opaque) []byte {
	if f == nil {
		return out
	}
	out = append(append(out, `,"fields":{"dialect":`...), journal.String(f.Dialect)...)
	out = append(append(out, `,"raw":`...), journal.String(string(f.Raw))...)
	return append(out, '}')
}

// messageOf writes a message as llm.complete takes it: with parts, if something in it is no text.
func messageOf(m *llm.Message, calls json.RawMessage) (json.RawMessage, error) {
	var parts []json.RawMessage
	plain, text := true, ""
	for _, p := range m.Parts {
		switch {
		case p.Opaque != nil:
			plain = false
			part := append([]byte(`{"dialect":`), journal.String(p.Opaque.Dialect)...)
			part = append(append(part, `,"raw":`...), journal.String(string(p.Opaque.Raw))...)
			parts = append(parts, append(part, `,"type":"opaque"}`...))
		case p.Image != nil:
			plain = false
			part := []byte(`{"type":"image","url":`)
			if part = append(part, journal.String(p.Image.URL)...); p.Image.URL == "" {
				part = append([]byte(`{"type":"image","data":{"$bytes":"`), base64.StdEncoding.EncodeToString(p.Image.Data)...)
				part = append(part, `"}`...)
			}
			parts = append(parts, append(part, '}'))
		case p.Text != "":
			text, plain = text+p.Text, plain && p.Fields == nil
			part := appendFields(append([]byte(`{"text":`), journal.String(p.Text)...), p.Fields)
			parts = append(parts, append(part, `,"type":"text"}`...))
		}
	}
	out := []byte(`{"role":"assistant","content":`)
	if plain {
		out = append(out, journal.String(text)...)
	} else {
		list, err := json.Marshal(parts)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if len(calls) > len("[]") {
		out = append(append(out, `,"tool_calls":`...), calls...)
	}
	return append(out, '}'), nil
}
