package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"agentkernel/internal/llm/transport"
)

// word is a string that some servers write as a number.
type word string

func (w *word) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		*w = word(s)
		return nil
	}
	if text := string(raw); text != "null" && strings.IndexByte("{[", raw[0]) < 0 {
		*w = word(text)
	}
	return nil
}

// failure is an error as servers write it. Some have no "error" around it.
type failure struct {
	Code     word            `json:"code"`
	Type     word            `json:"type"`
	Message  word            `json:"message"`
	Inner    json.RawMessage `json:"innererror"`
	Metadata json.RawMessage `json:"metadata"`
}

// fault reads why a request has failed. What is not JSON is the page of something in between, and tells nothing.
func fault(body []byte) transport.Fault {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage // Gemini's
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		failure
		Error  json.RawMessage `json:"error"`
		Detail word            `json:"detail"` // FastAPI's
	}
	if json.Unmarshal(body, &outer) != nil {
		return transport.Fault{}
	}
	f := outer.failure
	if len(outer.Error) > 0 && string(outer.Error) != "null" {
		var text string
		if json.Unmarshal(outer.Error, &text) == nil {
			f = failure{Message: word(text)}
		} else {
			f = failure{}
			if json.Unmarshal(outer.Error, &f) != nil {
				return transport.Fault{}
			}
		}
	}
	if f.Message == "" {
		f.Message = outer.Detail
	}
	out := transport.Fault{Code: string(f.Code), Type: string(f.Type), Message: string(f.Message)}
	if n, err := strconv.Atoi(out.Code); err == nil { // OpenRouter's and vLLM's: the status
		out.Code, out.Status = "", n
	}
	var inner struct {
		Code word `json:"code"`
	}
	if json.Unmarshal(f.Inner, &inner) == nil && inner.Code != "" && out.Type == "" {
		out.Type = string(inner.Code)
	}
	var metadata struct {
		Reasons []word `json:"reasons"`
	}
	if json.Unmarshal(f.Metadata, &metadata) == nil && len(metadata.Reasons) > 0 { // OpenRouter's filter
		out.Type = "moderation"
	}
	return out
}
