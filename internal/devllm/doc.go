// Package devllm is a server that behaves as a provider of language models does: the APIs of OpenAI, Azure, Anthropic,
// Ollama, vLLM and OpenRouter over HTTP, with their limits, headers, errors, prompt caches and streams, and with faults
// on request. It is for tests, demos and development: no model is in it. Its own log, made of what it counted with its
// own tokenizer, is the oracle that tests hold a client against.
//
// It must never import what it is to judge (internal/llm, internal/sched), and never keep a key: logs and recordings
// have fingerprints of keys alone.
//
// The way of a request: a dialect (chat.go, responses.go, anthropic.go, ollama.go) reads it into the form of request.go;
// server.go lets it through keys, models, faults (fault.go), the context window, the spend cap and the limits
// (limiter.go); script.go or answer.go decides the answer; cache.go and prices.go say what it costs; the dialect writes
// it, whole or as steps that stream.go sends at the pace of the clock; log.go writes down what was charged.
package devllm
