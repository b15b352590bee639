package ollama

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

func tooLong(least, most int64) *llm.Error {
	return &llm.Error{Kind: llm.TooLong, Message: "the prompt has at least " + strconv.FormatInt(least, 10) +
		" tokens, and the context " + strconv.FormatInt(most, 10) + ": raise num_ctx"}
}

// contextSize is the num_ctx of a request; 0: it is the server's.
func contextSize(r *llm.Request) int64 {
	var options struct {
		NumCtx int64 `json:"num_ctx"`
	}
	if json.Unmarshal(r.Extra["options"], &options) != nil {
		return 0
	}
	return options.NumCtx
}

// mostWords is how many words the texts of a request have at the most, by their size: to look at each byte takes long.
func mostWords(r *llm.Request) (n int64) {
	for _, m := range r.Messages {
		for p := range transport.Parts(m.Parts) {
			n += int64(len(p.Text)+1) / 2
		}
	}
	return n
}

// leastTokens is how many tokens the texts of a request have at the least. No tokenizer makes one token of two words, and none
// of the models' has many that are longer than 16 bytes, but for runs of one character.
func leastTokens(r *llm.Request) int64 {
	var words, bytes int64
	for _, m := range r.Messages {
		for p := range transport.Parts(m.Parts) {
			inWord := false
			last := rune(-1)
			for _, c := range p.Text {
				space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
				letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
				if letter && !inWord {
					words++
				}
				inWord = !space && (inWord || letter)
				if !space && c != last {
					bytes++
				}
				last = c
			}
		}
	}
	const longest = 16
	return max(words, bytes/longest)
}

// line is a bit of an answer, or all of it.
type line struct {
	Model   string `json:"model"`
	Message struct {
		Content  string `json:"content"`
		Thinking string `json:"thinking"`
		Calls    []struct {
			ID       string `json:"id"`
			Function struct {
				Name string          `json:"name"`
				Args json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done   bool            `json:"done"`
	Reason string          `json:"done_reason"`
	Input  *int64          `json:"prompt_eval_count"`
	Output *int64          `json:"eval_count"`
	Error  json.RawMessage `json:"error"`
}

// answer puts an answer together.
type answer struct {
	x        *transport.Exchange
	asked    *llm.Request
	most     int64 // tokens of the context; 0: the server knows
	model    string
	text     strings.Builder
	thinking strings.Builder
	calls    []llm.Part
}

func (a *answer) whole() (*llm.Answer, error) {
	body, err := a.x.All()
	if err != nil {
		return nil, err
	}
	var l line
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, a.x.Fail(err, nil)
	}
	if err := a.add(body, &l); err != nil {
		return nil, err
	}
	if !l.Done {
		return nil, a.x.Fail(transport.Malformed("the answer is not done"), nil)
	}
	out, err := a.answer(&l)
	if err != nil {
		return nil, err
	}
	a.x.Done()
	return out, nil
}

func (a *answer) stream() (*llm.Answer, error) {
	for lines := a.x.Lines(); ; {
		raw, cut, err := lines.Next()
		if err != nil {
			return nil, a.x.Fail(err, nil)
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			if cut {
				err = io.ErrUnexpectedEOF
			}
			return nil, a.x.Fail(err, nil)
		}
		if err := a.add(raw, &l); err != nil {
			return nil, err
		}
		if l.Done {
			out, err := a.answer(&l)
			if err != nil {
				return nil, err
			}
			a.x.Done()
			return out, nil
		}
	}
}

// add takes a bit of the answer, and tells it.
func (a *answer) add(raw []byte, l *line) error {
	if len(l.Error) > 0 && string(l.Error) != "null" {
		return a.x.Refuse(fault(raw), nil)
	}
	if a.model == "" {
		a.model = l.Model
	}
	if l.Message.Thinking != "" {
		a.thinking.WriteString(l.Message.Thinking)
		if err := a.x.Delta(llm.Delta{Reasoning: l.Message.Thinking}); err != nil {
			return a.x.Fail(err, nil)
		}
	}
	if l.Message.Content != "" {
		a.text.WriteString(l.Message.Content)
		if err := a.x.Delta(llm.Delta{Text: l.Message.Content}); err != nil {
			return a.x.Fail(err, nil)
		}
	}
	for _, c := range l.Message.Calls {
		made := &llm.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args}
		n := len(a.calls)
		if made.ID == "" { // older servers give none, and results have to say whose they are
			made.ID = "call_" + strconv.Itoa(n)
		}
		if len(made.Args) == 0 {
			made.Args = json.RawMessage("{}")
		}
		if made.Name == "" {
			return a.x.Fail(transport.Malformed("a tool call has no name"), nil)
		}
		a.calls = append(a.calls, llm.Part{Call: made})
		if err := a.x.Delta(llm.Delta{Call: &llm.ToolCallDelta{Index: n, ID: made.ID, Name: made.Name, Args: string(made.Args)}}); err != nil {
			return a.x.Fail(err, nil)
		}
	}
	return nil
}

// answer is the whole answer, if it answers the whole prompt.
func (a *answer) answer(last *line) (*llm.Answer, error) {
	out := &llm.Answer{Model: a.model, Message: llm.Message{Role: llm.Assistant}, Stop: llm.StopEnd}
	if a.thinking.Len() > 0 {
		raw := encode.NewBody(a.thinking.Len() + 16).Open('{').Key("thinking").String(a.thinking.String()).Close('}')
		text, _ := raw.Bytes() // of strings alone
		out.Message.Parts = append(out.Message.Parts, llm.Part{Opaque: &llm.Opaque{Dialect: Name, Raw: text}})
	}
	if a.text.Len() > 0 {
		out.Message.Parts = append(out.Message.Parts, llm.Part{Text: a.text.String()})
	}
	out.Message.Parts = append(out.Message.Parts, a.calls...)
	switch {
	case last.Reason == "length":
		out.Stop = llm.StopLength
	case len(a.calls) > 0:
		out.Stop = llm.StopToolCalls
	}
	out.Usage = a.x.Guess(out)
	if last.Output != nil && last.Input != nil { // thinking is a part of the output, and nobody says which
		out.Usage = llm.Usage{Input: llm.Tokens(*last.Input), Output: llm.Tokens(*last.Output)}
		raw := encode.NewBody(64).Open('{').Key("prompt_eval_count").Int(*last.Input).Key("eval_count").Int(*last.Output).Close('}')
		out.Usage.Raw, _ = raw.Bytes() // of numbers alone
	}
	if last.Input == nil || *last.Input <= 0 { // some servers leave it out where their cache has the prompt
		return out, nil
	}
	seen, least := *last.Input, int64(0)
	if seen < mostWords(a.asked) {
		least = leastTokens(a.asked)
	}
	if full := a.most > 0 && seen >= a.most-1; full || seen < least {
		wrong := tooLong(least, seen)
		if full {
			wrong = tooLong(seen, a.most)
		}
		e := a.x.Fail(transport.Malformed("%s", wrong.Message), &out.Usage)
		e.Kind, e.Usage = llm.TooLong, &out.Usage
		return nil, e
	}
	return out, nil
}
