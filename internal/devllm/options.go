package devllm

import (
	"io"
	"net/http"
	"time"

	"agentkernel/internal/nearest"
)

// Options are what a server is made of. The zero value is OpenAI's profile, without delays, with the echo answer.
type Options struct {
	// Profile is how the server behaves; one without a name is OpenAI's.
	Profile Profile
	// Keys are those that are let in; none: every key is. Only their fingerprints are kept.
	Keys []string
	// Script decides the answers; nil: each answer is an echo, or fits the schema that was asked for.
	Script *Script
	// EchoTokens is how long an echo is; 0: 32 tokens.
	EchoTokens int64
	// Reasoning is how many tokens of reasoning each answer begins with that no rule decides.
	Reasoning int64

	// FirstToken is how long the first token takes, PerToken each further one.
	FirstToken, PerToken time.Duration
	// Chunk is how many tokens an event of a stream has; 0: 4.
	Chunk int
	// Fragment above 0 lets streams leave in pieces of random length, by this seed, that know nothing of events or letters.
	Fragment uint64
	// PingAfter is how long Anthropic's streams and OpenRouter's are silent before they say that they live; 0: 10 s.
	PingAfter time.Duration

	// SpendCap is what may be spent, in nano-dollars; then every request gets the 429 that waiting does not cure. 0: no cap.
	SpendCap int64
	// Faults are there from the beginning.
	Faults []Fault

	// Record is a directory into which answers of Upstream are written; nothing is answered by the server itself then.
	Record, Upstream string
	// Transport reaches Upstream; nil: http.DefaultTransport.
	Transport http.RoundTripper
	// Replay is a directory of recordings that answer in place of the server.
	Replay string

	// Log gets one JSON object a line for each request; nil: none is written. Server.Log has them in any case.
	Log io.Writer
	// Clock is the time; nil: the system's.
	Clock Clock
}

// complete checks the options and fills in what was left out.
func (o Options) complete() (Options, error) {
	if o.Profile.Name == "" {
		o.Profile, _ = ProfileByName("openai")
	}
	if _, ok := ProfileByName(o.Profile.Name); !ok {
		return o, unknownProfile(o.Profile.Name)
	}
	if err := o.Profile.Limits.validate(); err != nil {
		return o, err
	}
	if err := o.checkNumbers(); err != nil {
		return o, err
	}
	for _, f := range o.Faults {
		if err := f.validate(); err != nil {
			return o, err
		}
	}
	switch {
	case (o.Record == "") != (o.Upstream == ""):
		return o, bad("--record DIR --upstream https://api.example.com").of("recording needs a directory and the address of a provider, and one of them is missing")
	case o.Record != "" && o.Replay != "":
		return o, bad("record first, then replay").of("a server records or replays, not both")
	}
	if o.EchoTokens == 0 {
		o.EchoTokens = 32
	}
	if o.Chunk == 0 {
		o.Chunk = 4
	}
	if o.PingAfter == 0 {
		o.PingAfter = 10 * time.Second
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	return o, nil
}

func (o Options) checkNumbers() error {
	for name, n := range map[string]int64{"the length of an echo": o.EchoTokens, "the reasoning": o.Reasoning, "the time of the first token": int64(o.FirstToken),
		"the time of a token": int64(o.PerToken), "the tokens of an event": int64(o.Chunk), "the spend cap": o.SpendCap, "the silence before a ping": int64(o.PingAfter)} {
		if n < 0 {
			return bad("leave it out for the default").of("%s is below zero", name)
		}
	}
	switch {
	case o.EchoTokens > 1_000_000 || o.Reasoning > 1_000_000:
		return bad("a million tokens are the most").of("an answer of %d tokens is too long", max(o.EchoTokens, o.Reasoning))
	case o.FirstToken > time.Hour || o.PerToken > time.Minute:
		return bad("an hour for the first token and a minute for each are the most").of("the answers are too slow")
	}
	return nil
}

func unknownProfile(name string) error {
	question := nearest.Question(name, ProfileNames())
	if question == "" {
		question = "there are openai, anthropic, azure, ollama, vllm and openrouter"
	}
	return bad("%s", question).of("there is no profile %q", name)
}
