package agentkernel

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Models says what calls to language models have used and cost, and what their servers let pass.
type Models interface {
	// ModelUsage adds up what the calls to models have used that a query selects, from the journals of the store: of processes that
	// were pruned nothing is left. Errors: CodeInvalid; CodeLimit, there would be more than MaxUsageRows rows.
	ModelUsage(ctx context.Context, q UsageQuery) (ModelUsage, error)
	// ModelLimits is what a running kernel knows of the limits of servers, what is left of them, and what waits. CodeUnavailable: no
	// kernel runs.
	ModelLimits(ctx context.Context) (ModelLimits, error)
	// GiveKey hands over the key of a model that is declared with key=given: of "fast", of the second deployment of one "fast#2". It takes
	// the place of the one before, and is in the memory of this kernel alone: the next one has to be given it again. Calls that wait
	// for it go on. pid is a process that has brought the model (Spec.Models), and the key is for those of its tree that have brought the
	// same; 0: the setting models declares it. No error has anything of the key. Errors: CodeNotFound, there is no such model, or no such
	// process; CodeInvalid, its key is not given, or what was given is no key; CodeConflict, the process has ended; CodeUnavailable, no
	// kernel runs.
	GiveKey(ctx context.Context, pid PID, model, key string) error
}

// What calls to models use up besides, as names of Amounts. No budget bounds them. The classes of tokens add up to AmountTokens.
const (
	AmountInput      = "input" // tokens that no cache had
	AmountCached     = "cached"
	AmountCacheWrite = "cache_write"
	AmountOutput     = "output" // without reasoning
	AmountReasoning  = "reasoning"
	AmountUnpriced   = "unpriced" // requests to a model whose price nobody knows
	amountModel      = "model "
	// AmountUnsent is what a call reserves that is in the journal before it may be sent: nothing is charged for it, and the retry entry that
	// reserves for it begins it for the first time.
	AmountUnsent = "unsent"
	// AmountUncertain are requests of a call that was sent more than once of which nobody knows what they have used: for each of them the rest
	// has all that the call had reserved.
	AmountUncertain = "uncertain"
)

// AmountModel is the name under which requests to a model count, "openai:gpt-5-mini".
func AmountModel(model string) string { return amountModel + model }

// Model is the model that was asked for these amounts; "": none is named.
func (a Amounts) Model() string {
	for _, name := range a.Names() {
		if model, ok := strings.CutPrefix(name, amountModel); ok {
			return model
		}
	}
	return ""
}

// UsageKey is what rows of a ModelUsage can be about.
type UsageKey string

// The keys.
const (
	UsageAgent     UsageKey = "agent"     // the name of the process
	UsageModel     UsageKey = "model"     // "openai:gpt-5-mini"
	UsageDay       UsageKey = "day"       // in UTC
	UsageNamespace UsageKey = "namespace" //
	UsageTree      UsageKey = "tree"      // the process at its root
)

// UsageKeys are all of them.
func UsageKeys() []UsageKey {
	return []UsageKey{UsageAgent, UsageModel, UsageDay, UsageNamespace, UsageTree}
}

// MaxUsageRows is how many rows a ModelUsage may have.
const MaxUsageRows = 10_000

// UsageQuery selects calls by when they began.
type UsageQuery struct {
	By        []UsageKey `json:"by,omitempty"` // none: there is only the total
	Namespace string     `json:"namespace,omitempty"`
	Tree      PID        `json:"tree,omitempty"` // the process at its root; 0: all
	Since     time.Time  `json:"since,omitzero"`
	Until     time.Time  `json:"until,omitzero"` // before; zero: until now
}

// Validate refuses keys that are not known or are there twice, and a time that has no beginning.
func (q *UsageQuery) Validate() error {
	for i, key := range q.By {
		if !slices.Contains(UsageKeys(), key) {
			return Errorf(CodeInvalid, "usage", "usage is not known by %.40q: there are agent, model, day, namespace and tree", string(key))
		}
		if slices.Contains(q.By[:i], key) {
			return Errorf(CodeInvalid, "usage", "%s is there twice", key)
		}
	}
	if !q.Until.IsZero() && !q.Until.After(q.Since) {
		return Errorf(CodeInvalid, "usage", "the time ends at %s, before it begins", q.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// ModelUsage is what calls to models have used.
type ModelUsage struct {
	Rows  []UsageRow `json:"rows"`  // by the keys of the query; the dearest first, or by day if that is the first key
	Total UsageRow   `json:"total"` // without keys
}

// UsageRow is what some calls have used. A key that was not asked for is left out.
type UsageRow struct {
	Agent     string `json:"agent,omitempty"`
	Model     string `json:"model,omitempty"` // "?": the journal names none
	Day       string `json:"day,omitempty"`   // 2026-11-01
	Namespace string `json:"namespace,omitempty"`
	Tree      PID    `json:"tree,omitempty"`

	Calls  int64 `json:"calls"`  // that have ended, in whatever way
	Failed int64 `json:"failed"` // of Calls: the program got an error
	// Tokens are all tokens. What is beyond the classes is of calls whose outcome nobody knows.
	Tokens     int64   `json:"tokens"`
	Input      int64   `json:"input"`
	Cached     int64   `json:"cached"`
	CacheWrite int64   `json:"cache_write"`
	Output     int64   `json:"output"`
	Reasoning  int64   `json:"reasoning"`
	USD        NanoUSD `json:"usd"`
	// Uncertain requests are charged with all that was reserved, because nobody knows whether their servers have charged for them.
	Uncertain    int64   `json:"uncertain"`
	UncertainUSD NanoUSD `json:"uncertain_usd"` // of USD
	Unpriced     int64   `json:"unpriced"`      // requests that cost nothing in USD, since nobody knows their price
	Open         int64   `json:"open"`          // calls under way: not those that wait for their turn
	HeldUSD      NanoUSD `json:"held_usd"`      // for Open, and not in USD
}

// ModelLimits is what is known of the traffic to models at a moment.
type ModelLimits struct {
	Keys        []KeyLimits       `json:"keys"` // in the order of the setting models
	Deployments []ModelDeployment `json:"deployments"`
	Unplaced    int               `json:"unplaced"` // calls that wait until some deployment is up
}

// KeyLimits is what is known of a key and a family of models, which share their limits.
type KeyLimits struct {
	Key         string       `json:"key"`            // its name: what server, and where the key is
	Tree        PID          `json:"tree,omitempty"` // whose processes have brought the models; 0: they are of the setting
	Family      string       `json:"family"`
	Limits      []ModelLimit `json:"limits"`
	Share       float64      `json:"share"` // of the limits, that this kernel has
	Concurrent  int          `json:"concurrent"`
	Learned     bool         `json:"learned"` // Concurrent was found out; false: it is configured
	Running     int          `json:"running"`
	Queued      int          `json:"queued"`
	Queue       []QueuedAt   `json:"queue"`                 // Queued by priority, the most urgent first
	Waiting     string       `json:"waiting,omitempty"`     // what the first call waits for
	PausedUntil time.Time    `json:"paused_until,omitzero"` // the server has asked for a pause
}

// QueuedAt is how many calls of a priority wait.
type QueuedAt struct {
	Priority int `json:"priority"`
	Calls    int `json:"calls"`
}

// ModelLimit is what is known of one limit.
type ModelLimit struct {
	What   string   `json:"what"`           // requests, tokens, input or output
	Source string   `json:"source"`         // "headers": the server says it; "answers": found out by what it refused; "config": declared
	Amount int64    `json:"amount"`         // for each Period; 0: only Pace is known
	Period Duration `json:"period"`         //
	Pace   float64  `json:"pace,omitempty"` // for each second: what the server was seen to let pass, where that is less
	Left   int64    `json:"left"`           // after all that is under way
	Second bool     `json:"second,omitempty"`
	Ten    bool     `json:"ten,omitempty"` // Second, Ten: a part of it binds in each second, in each ten seconds
}

// The states of a ModelDeployment.
const (
	ModelUp      = "up"
	ModelAvoided = "avoided" // others are preferred until a time: it refuses the key, or has no such model
	ModelDown    = "down"    // it is left alone until a time, and then tried by one call
	ModelTrial   = "trial"   // that call is under way
	ModelKeyless = "keyless" // calls wait until somebody gives its key
)

// ModelDeployment is a model at a server, and whether it answers.
type ModelDeployment struct {
	Name     string    `json:"name"` // the alias, with #2 for the second of one
	Key      string    `json:"key"`
	Tree     PID       `json:"tree,omitempty"`    // as in KeyLimits
	Given    bool      `json:"given,omitempty"`   // its key is one that somebody gives, and was given unless State is ModelKeyless
	Missing  string    `json:"missing,omitempty"` // why a key that this kernel has in a variable or a file is not there now; "": it is, or only a request can say
	Family   string    `json:"family"`
	Model    string    `json:"model"` // as the server names it
	Queued   int       `json:"queued"`
	State    string    `json:"state"`            // ModelUp and so on
	Since    time.Time `json:"since,omitzero"`   // of State; zero: since the kernel began
	Until    time.Time `json:"until,omitzero"`   //
	Failures int       `json:"failures"`         // in a row
	Reason   string    `json:"reason,omitempty"` // the last failure, if it has not answered since
}
