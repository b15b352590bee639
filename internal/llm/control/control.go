// Package control sends the calls of all programs to language models when their turn has come: one queue and one set of limits for
// each key and family of models, one owner of retries, and one place that knows which deployment is down. What is next, and
// when, is decided by internal/sched/traffic; here are the waiting callers, the clock, and what becomes of failures.
//
// It must never read or change what is asked or answered, and knows no provider: sending is the caller's.
//
// There is one lock, one timer for everything that waits, and no goroutine but the timer's.
package control

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/sched/traffic"
)

// Deployment is a model at a server, with a key.
type Deployment struct {
	Name string
	// Key and Family are the names of what the server has limits for: a key, never its secret, and a family of models.
	Key, Family string
	Model       string // as the server names it; what is learned of tokens is learned for it
	Traits      llm.Traits
	// Limits are those of the key for the family, as far as they are configured. Of several deployments with the same key and
	// family the first one says them.
	Limits     traffic.Limits
	OutputKept bool // see traffic.Config
	// Lacks is what nothing can be sent without, and how it is got, in the words of Explain; Equip notes that it is there. "": nothing.
	Lacks string
}

// Alias is a name under which programs ask for a model.
type Alias struct {
	Name        string
	Deployments []string
	Fallback    []string // other aliases, in whose deployments calls go when none of its own can be had
}

// Retry bounds what is sent again.
type Retry struct {
	// Attempts is how often a call is sent at most. Refusals by a limit cost nothing and do not count, up to MostRefusals, and neither do
	// tries at an address where nothing listens. 0: 10.
	Attempts int
	// Time is how long a call is sent again after it was sent first, without what it waits in the queue. 0: 10 minutes.
	Time time.Duration
	// Base and Most bound the pause before the next attempt: a random part of Base, twice that, and so on. 0: 500 ms and 30 s.
	Base, Most time.Duration
}

// MostRefusals is how often a call may be refused by a limit.
const MostRefusals = 20

// MostPaid is how often a call is sent again although its server has charged for it already, or may have.
const MostPaid = 2

// Breaker says when a deployment is left alone.
type Breaker struct {
	Failures int // in a row. 0: 5
	// Pause is for how long at first; each time that the one call which tries it then fails it is twice as long, up to
	// Most. 0: 5 s and 1 minute.
	Pause, Most time.Duration
}

// Clock is where the time comes from. Zero fields: the real one.
type Clock struct {
	Now func() time.Time
	// After calls f once after a time, in a goroutine of its own, unless stop is called before.
	After func(d time.Duration, f func()) (stop func() bool)
}

// Config says what a Control is made of.
type Config struct {
	Deployments []Deployment
	Aliases     []Alias
	Retry       Retry
	Breaker     Breaker
	Weight      func(namespace string) int // see traffic.Config
	Reserved    map[string]float64         // see traffic.Config
	Capacity    traffic.Capacity           // see traffic.Config
	Clock       Clock
	Rand        func() float64 // from 0 to 1; nil: the real one
}

// Validate says what is wrong with a configuration.
func (c *Config) Validate() error {
	deployments, aliases := map[string]bool{}, map[string]bool{}
	for _, d := range c.Deployments {
		switch {
		case d.Name == "" || d.Key == "" || d.Family == "":
			return fmt.Errorf("deployment %q: a name, a key and a family are needed", d.Name)
		case deployments[d.Name]:
			return fmt.Errorf("deployment %q is there twice", d.Name)
		}
		deployments[d.Name] = true
	}
	for _, a := range c.Aliases {
		if aliases[a.Name] {
			return fmt.Errorf("model %q is there twice", a.Name)
		}
		aliases[a.Name] = true
		if len(a.Deployments) == 0 {
			return fmt.Errorf("model %q has no deployment", a.Name)
		}
		for _, name := range a.Deployments {
			if !deployments[name] {
				return fmt.Errorf("model %q: there is no deployment %q", a.Name, name)
			}
		}
	}
	sum := 0.0
	for namespace, share := range c.Reserved {
		if sum += share; share < 0 || sum > 1+1e-9 {
			return fmt.Errorf("reserved shares: %s of namespace %q is not possible; they are from 0 to 1, and 1 together at most", strconv.FormatFloat(share, 'g', -1, 64), namespace)
		}
	}
	for _, a := range c.Aliases {
		for _, name := range a.Fallback {
			if !aliases[name] || name == a.Name {
				return fmt.Errorf("model %q cannot fall back to %q", a.Name, name)
			}
		}
	}
	return nil
}

// ErrClosed is the answer to who waits when the controller is closed.
var ErrClosed = errors.New("the kernel is shutting down")

// Control is the traffic of all calls to models. Its methods may be called by many goroutines.
type Control struct {
	cfg Config

	mu          sync.Mutex
	groups      []*group
	deployments []*deployment
	byName      map[string]*deployment
	aliases     map[string]Alias
	estimators  map[string]*traffic.Estimator // by model
	tickets     map[string]*Ticket            // those that wait, by the IDs of their calls
	sending     map[string]*Tries             // those that are sent, by the IDs of their calls
	numbered    int64                         // tickets
	affinity    affinity
	alarm       alarm
	closed      bool
}

// group is a key and a family.
type group struct {
	*traffic.Controller
	key, family string
	next        time.Time // when it is to be asked again; zero: it need not
}

// New returns a Control that is ready. Close ends it.
func New(cfg Config) (*Control, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.defaults()
	c := &Control{cfg: cfg, byName: map[string]*deployment{}, aliases: map[string]Alias{}, estimators: map[string]*traffic.Estimator{}, tickets: map[string]*Ticket{}, sending: map[string]*Tries{}}
	now := cfg.Clock.Now()
	groups := map[[2]string]*group{}
	for _, d := range cfg.Deployments {
		g := groups[[2]string{d.Key, d.Family}]
		if g == nil {
			g = &group{key: d.Key, family: d.Family, Controller: traffic.New(traffic.Config{Key: d.Key, Family: d.Family, Limits: d.Limits,
				CachedInputFree: d.Traits.CachedInputFree, OutputPrecharged: d.Traits.OutputPrecharged, OutputKept: d.OutputKept,
				Weight: cfg.Weight, Reserved: cfg.Reserved, Capacity: cfg.Capacity, Cost: cost}, now)}
			groups[[2]string{d.Key, d.Family}] = g
			c.groups = append(c.groups, g)
		}
		if c.estimators[d.Model] == nil {
			c.estimators[d.Model] = &traffic.Estimator{}
		}
		x := &deployment{Deployment: d, group: g, estimator: c.estimators[d.Model], waiting: map[*Ticket]struct{}{}, lacks: d.Lacks != ""}
		c.deployments = append(c.deployments, x)
		c.byName[d.Name] = x
	}
	for _, a := range cfg.Aliases {
		c.aliases[a.Name] = a
	}
	return c, nil
}

func (c *Config) defaults() {
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, 10)
	c.Retry.Time = cmp.Or(c.Retry.Time, 10*time.Minute)
	c.Retry.Base = cmp.Or(c.Retry.Base, 500*time.Millisecond)
	c.Retry.Most = cmp.Or(c.Retry.Most, 30*time.Second)
	c.Breaker.Failures = cmp.Or(c.Breaker.Failures, 5)
	c.Breaker.Pause = cmp.Or(c.Breaker.Pause, 5*time.Second)
	c.Breaker.Most = cmp.Or(c.Breaker.Most, time.Minute)
	if c.Clock.Now == nil {
		c.Clock.Now = time.Now
	}
	if c.Clock.After == nil {
		c.Clock.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	if c.Rand == nil {
		c.Rand = rand.Float64 //nolint:gosec // it spreads attempts in time, and keeps no secret
	}
}

// Close ends the waiting of all callers with [ErrClosed]. What is under way may be ended as always.
func (c *Control) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	now := c.cfg.Clock.Now()
	for _, d := range c.deployments {
		for _, t := range d.inOrder() {
			c.sendBack(t, now)
		}
	}
	c.alarm.wakeAll()
	if c.alarm.stop != nil {
		c.alarm.stop()
	}
}
