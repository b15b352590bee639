package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tiktoken-go/tokenizer"
)

// meter counts what a model reads and writes.
type meter struct {
	codec tokenizer.Codec
	in    int // tokens that the model reads: schemas, instructions, answers
	out   int // tokens that the model writes: calls with their arguments
	turns int // round trips: calls that are made at once are one
	fixed int // part of in: schemas and instructions
	tools int // that were loaded
}

// newCodec is the vocabulary of OpenAI's o200k models; others count a little differently, in both columns.
func newCodec() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) }

func (m *meter) count(text string) (int, error) {
	n, err := m.codec.Count(text)
	if err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	return n, nil
}

func (m *meter) reads(text string) error {
	n, err := m.count(text)
	m.in += n
	return err
}

// writes counts a call as the model writes it.
func (m *meter) writes(tool string, arguments any) error {
	text, err := compact(map[string]any{"name": tool, "input": arguments})
	if err != nil {
		return err
	}
	n, err := m.count(text)
	m.out += n
	return err
}

// compact is JSON as models write it: no spaces, nothing escaped that need not be.
func compact(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}
