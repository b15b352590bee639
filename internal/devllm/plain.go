package devllm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// embeddingsDialect is OpenAI's way to ask for vectors.
type embeddingsDialect struct{ chatDialect }

func (embeddingsDialect) name() string { return "embeddings" }

func (embeddingsDialect) read(r *http.Request, body []byte) (*request, *failure) {
	var b struct {
		Model          string          `json:"model"`
		Input          json.RawMessage `json:"input"`
		Dimensions     int             `json:"dimensions"`
		EncodingFormat string          `json:"encoding_format"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, notJSON(err)
	}
	if f := azurePath(r, &b.Model); f != nil {
		return nil, f
	}
	out, f := readInputs(b.Model, b.Input, b.Dimensions)
	if f == nil {
		out.base64 = b.EncodingFormat == "base64"
	}
	return out, f
}

func (embeddingsDialect) whole(x *exchange) any {
	data := []any{}
	for i, text := range x.req.inputs {
		v := embed(text, x.dims())
		one := map[string]any{"object": "embedding", "index": i, "embedding": v}
		if x.req.base64 {
			one["embedding"] = inBase64(v)
		}
		data = append(data, one)
	}
	n := x.tokens.Input()
	return map[string]any{"object": "list", "data": data, "model": x.model.Name, "usage": map[string]any{"prompt_tokens": n, "total_tokens": n}}
}

// countDialect counts the prompt of another dialect. It is free, and no limit holds it.
type countDialect struct{ dialect }

func (c countDialect) name() string { return c.dialect.name() + ".count" }

func (c countDialect) whole(x *exchange) any {
	m := map[string]any{"input_tokens": x.req.promptTokens}
	if _, ok := c.dialect.(responsesDialect); ok {
		m["object"] = "response.input_tokens"
	}
	return m
}

// listModels serves the list of models and each of them.
func (s *Server) listModels(mux *http.ServeMux, base string, d dialect) {
	one := func(m Model) map[string]any {
		if _, ok := d.(messagesDialect); ok {
			return map[string]any{"type": "model", "id": m.Name, "display_name": m.Name, "created_at": "2026-01-01T00:00:00Z", "max_input_tokens": m.Window, "max_tokens": m.Output}
		}
		return map[string]any{"id": m.Name, "object": "model", "created": 1_767_225_600, "owned_by": "devllm"}
	}
	mux.HandleFunc("GET "+base+"/models", func(w http.ResponseWriter, r *http.Request) {
		if !s.allowed(w, r, d) {
			return
		}
		list := []any{}
		for _, m := range s.opts.Profile.Models {
			list = append(list, one(m))
		}
		body := map[string]any{"object": "list", "data": list}
		if _, ok := d.(messagesDialect); ok && len(list) > 0 {
			body = map[string]any{"data": list, "has_more": false, "first_id": s.opts.Profile.Models[0].Name, "last_id": s.opts.Profile.Models[len(list)-1].Name}
		}
		writeJSON(w, http.StatusOK, body)
	})
	mux.HandleFunc("GET "+base+"/models/{model...}", func(w http.ResponseWriter, r *http.Request) {
		if !s.allowed(w, r, d) {
			return
		}
		m, ok := s.opts.Profile.model(r.PathValue("model"))
		if !ok {
			s.fail(w, &exchange{d: d, id: s.number.Add(1)}, &failure{cause: noModel, param: "model", message: fmt.Sprintf("The model '%s' does not exist", r.PathValue("model"))})
			return
		}
		writeJSON(w, http.StatusOK, one(m))
	})
}

// allowed lets a request through that asks no model; else it has been answered.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, d dialect) bool {
	if s.tape != nil {
		s.tape.serve(w, r)
		return false
	}
	if f := s.checkKey(keyOf(r)); f != nil {
		s.fail(w, &exchange{d: d, id: s.number.Add(1)}, f)
		return false
	}
	return true
}

// chatID is what a chat completion is called.
func chatID(x *exchange) string { return fmt.Sprintf("chatcmpl-dev%08d", x.id) }
