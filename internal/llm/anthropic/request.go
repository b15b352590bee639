package anthropic

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// encodeRequest writes the body of a request. The messages come last: all that is before them is the same for each turn.
func encodeRequest(r *llm.Request, stream bool) ([][]byte, error) {
	b := transport.NewBody(r).Open('{').Key("model").String(r.Model)
	if r.MaxTokens <= 0 {
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "anthropic needs max_tokens: it has no cap of its own"})
	}
	b.Key("max_tokens").Int(r.MaxTokens)
	messages := r.Messages
	for len(messages) > 0 && messages[0].Role == llm.System {
		messages = messages[1:]
	}
	leading := r.Messages[:len(r.Messages)-len(messages)]
	tools(b, r, len(leading) == 0)
	if len(leading) > 0 {
		system(b, r, leading)
	}
	thinking(b, r)
	settings(b, r)
	if stream {
		b.Key("stream").Bool(true)
	}
	if r.Cache != "" {
		// The server puts the mark behind the last message itself. A mark in the message would be gone with the next one, and
		// with it the bytes that the cache goes by.
		b.Key("cache_control")
		cache(b, r)
	}
	b.Extra(r.Extra, "messages", "stream", "system")
	b.Key("messages").Open('[')
	for i := 0; i < len(messages); {
		n := 1
		// Results of calls that were made at once are one message.
		for messages[i].Role == llm.ToolRole && i+n < len(messages) && messages[i+n].Role == llm.ToolRole {
			n++
		}
		message(b, messages[i:i+n])
		i += n
	}
	body, err := b.Close(']').Close('}').Pieces()
	var already *llm.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &already):
		return nil, already
	}
	return nil, &llm.Error{Kind: llm.Invalid, Message: err.Error()}
}

func cache(b *encode.Body, r *llm.Request) {
	b.Open('{').Key("type").String("ephemeral")
	switch r.Cache {
	case "5m": // the server's own
	case "1h":
		b.Key("ttl").String(r.Cache)
	default:
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "cache is 5m or 1h"})
	}
	b.Close('}')
}

// tools writes what the model may call. The last one ends what is the same for all conversations, if there is no system prompt.
func tools(b *encode.Body, r *llm.Request, mark bool) {
	if len(r.Tools) > 0 {
		b.Key("tools").Open('[')
		for i, t := range r.Tools {
			b.Open('{').Key("name").String(t.Name)
			if t.Description != "" {
				b.Key("description").String(t.Description)
			}
			b.Key("input_schema").Raw(t.Schema)
			if mark && r.Cache != "" && i == len(r.Tools)-1 {
				b.Key("cache_control")
				cache(b, r)
			}
			b.Close('}')
		}
		b.Close(']')
	}
	if r.ToolChoice == "" || r.ToolChoice == "auto" {
		return
	}
	b.Key("tool_choice").Open('{').Key("type")
	switch r.ToolChoice {
	case "none":
		b.String("none")
	case "required":
		b.String("any")
	default:
		b.String("tool").Key("name").String(r.ToolChoice)
	}
	b.Close('}')
}

// system writes the messages of the system that a conversation begins with.
func system(b *encode.Body, r *llm.Request, leading []llm.Message) {
	var texts []encode.Text
	for _, m := range leading {
		for _, p := range m.Parts {
			if p.Text != "" {
				texts = append(texts, encode.Text{Plain: p.Text, Escaped: p.Escaped})
			} else if p.Opaque == nil {
				b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message of the system has something else than text"})
			}
		}
	}
	if len(texts) == 0 {
		return
	}
	b.Key("system").Open('[')
	for i, text := range texts {
		b.Open('{').Key("type").String("text").Key("text").Texts(text)
		if r.Cache != "" && i == len(texts)-1 {
			b.Key("cache_control")
			cache(b, r)
		}
		b.Close('}')
	}
	b.Close(']')
}

// thinking writes how much the model is to think, and the schema of its answer, which share a field.
func thinking(b *encode.Body, r *llm.Request) {
	thinks := r.Reasoning != "" && r.Reasoning != "none"
	byEffort := thinks && adaptive(r.Model)
	switch {
	case byEffort:
		b.Key("thinking").Open('{').Key("type").String("adaptive").Close('}')
	case thinks:
		b.Key("thinking").Open('{').Key("type").String("enabled").Key("budget_tokens").Int(budget(b, r)).Close('}')
	}
	if !byEffort && len(r.Schema) == 0 {
		return
	}
	b.Key("output_config").Open('{')
	if byEffort {
		b.Key("effort").String(r.Reasoning)
	}
	if len(r.Schema) > 0 {
		b.Key("format").Open('{').Key("type").String("json_schema").Key("schema").Raw(r.Schema).Close('}')
	}
	b.Close('}')
}

// adaptive says whether a model decides itself how much it thinks. Those up to 4.5 know only a budget of tokens; those from 4.7
// on refuse one. A name without a version is taken for a new one.
func adaptive(model string) bool {
	if !strings.Contains(model, "claude") {
		return true
	}
	major, minor := -1, 0
	for word := range strings.FieldsFuncSeq(model, func(r rune) bool { return strings.ContainsRune("-._@:/", r) }) {
		const longest = 2 // digits; more of them are a date
		n, err := strconv.Atoi(word)
		if err != nil || len(word) > longest {
			if major >= 0 {
				break
			}
			continue
		}
		if major >= 0 {
			minor = n
			break
		}
		major = n
	}
	return major < 0 || major > 4 || major == 4 && minor >= 6
}

// budget is how many tokens a model may think, which are a part of those that it may answer.
func budget(b *encode.Body, r *llm.Request) int64 {
	const least = 1024
	share := map[string]int64{"low": 4, "medium": 2}[r.Reasoning] // of the cap: a fourth, a half
	n := r.MaxTokens - r.MaxTokens/5                              // four fifths
	if share != 0 {
		n = r.MaxTokens / share
	}
	if n = max(n, least); n >= r.MaxTokens {
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "this model thinks with at least 1024 tokens of its answer: set max_tokens higher"})
	}
	return n
}

func settings(b *encode.Body, r *llm.Request) {
	b.FloatIf("temperature", r.Temperature).FloatIf("top_p", r.TopP)
	if len(r.Stop) > 0 {
		b.Key("stop_sequences").Strings(r.Stop)
	}
}

// message writes a message. It is several where all of them are results of tools.
func message(b *encode.Body, turn []llm.Message) {
	role := turn[0].Role
	if role == llm.ToolRole {
		role = llm.User
	}
	switch role {
	case llm.System, llm.User, llm.Assistant:
	default:
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message has no role"})
	}
	empty := true
	for _, m := range turn {
		for _, p := range m.Parts {
			empty = empty && (p.Text == "" && p.Image == nil && p.Call == nil && p.Result == nil && !ours(p.Opaque))
		}
	}
	if empty { // the server refuses a message of nothing
		return
	}
	b.Open('{').Key("role").String(string(role)).Key("content").Open('[')
	// Results come before all else, or the server does not find them.
	for _, m := range turn {
		for _, p := range m.Parts {
			if p.Result != nil {
				result(b, p.Result)
			}
		}
	}
	for _, m := range turn {
		for i := range m.Parts {
			if p := &m.Parts[i]; p.Result == nil {
				part(b, p)
				if m.Role == llm.ToolRole && (p.Text != "" || p.Image != nil) {
					b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message of tools has something else than results"})
				}
			}
		}
	}
	b.Close(']').Close('}')
}

func ours(o *llm.Opaque) bool { return o != nil && o.Dialect == Name }

func result(b *encode.Body, r *llm.ToolResult) {
	b.Open('{').Key("type").String("tool_result").Key("tool_use_id").String(r.ID)
	if r.Failed {
		b.Key("is_error").Bool(true)
	}
	b.Key("content").Open('[')
	for i := range r.Parts {
		part(b, &r.Parts[i])
	}
	b.Close(']').Close('}')
}

func part(b *encode.Body, p *llm.Part) {
	switch {
	case ours(p.Opaque):
		b.Raw(p.Opaque.Raw)
		return
	case p.Image != nil:
		b.Open('{').Key("type").String("image").Key("source").Open('{')
		if len(p.Image.Data) == 0 {
			b.Key("type").String("url").Key("url").String(p.Image.URL)
		} else {
			kind := p.Image.Type
			if kind == "" {
				kind = http.DetectContentType(p.Image.Data)
			}
			b.Key("type").String("base64").Key("media_type").String(kind).Key("data").Data("", p.Image.Data)
		}
		b.Close('}')
	case p.Call != nil:
		b.Open('{').Key("type").String("tool_use").Key("id").String(p.Call.ID).Key("name").String(p.Call.Name).Key("input")
		if args := p.Call.Args; len(args) > 0 && args[0] == '{' {
			b.Raw(args)
		} else if len(args) == 0 {
			b.Open('{').Close('}')
		} else { // what the model wrote is no object, and the server takes nothing else
			b.Open('{').Key("raw").Raw(args).Close('}')
		}
	case p.Text != "": // the server refuses an empty one
		b.Open('{').Key("type").String("text").Key("text").Texts(encode.Text{Plain: p.Text, Escaped: p.Escaped})
	default:
		return
	}
	if ours(p.Fields) {
		b.Fields(p.Fields.Raw)
	}
	b.Close('}')
}
