// Package router sends the questions of programs to models: it finds the deployments behind an alias, says what a query costs at most, waits until it
// is its turn, and sends it by the provider of whichever deployment that is. It must never send anything that its controller has not
// allowed, and never keep a key but those that somebody gives it, in memory alone.
package router

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/providers"
	"agentkernel/internal/nearest"
	"agentkernel/internal/sched/traffic"
)

// Config says what a Router is made of.
type Config struct {
	Models []models.Model
	Prices []*models.Table // the user's own, the first first; those of this version come last
	// Lookup finds variables of the kernel's environment, where keys may be; nil: there are none.
	Lookup func(name string) (string, bool)
	Weight func(namespace string) int // nil: all have the same
	// Reserved are the parts of each limit, from 0 to 1, that namespaces have as long as they ask for them. Others have what is left.
	Reserved map[string]float64
	Client   *http.Client // nil: one for each provider
	Clock    control.Clock
	Rand     func() float64 // see control.Config
	// Provider makes providers; nil: those of package providers.
	Provider func(kind string, opts llm.Options) (llm.Provider, error)

	tree agentkernel.PID // whose processes have brought Models; 0: they are the kernel's own
}

// Router implements llm.Engine.
type Router struct {
	cfg         Config
	control     *control.Control
	deployments map[string]*deployment
	aliases     []string                 // in their order
	of          map[string][]*deployment // by alias
	answer      map[string][]*deployment // by alias: all that may answer for it, those of its fallbacks included
	answers     *answers

	mu      sync.Mutex
	between map[string]*control.Tries // of queries that are planned anew, by their IDs
	brought map[book]*Router
	closed  bool
}

// deployment is a model that was declared, with what speaks to its server.
type deployment struct {
	name     string
	model    models.Model
	provider llm.Provider
	price    *models.Price // nil: nobody says
	priced   string        // where the price is from
	given    atomic.Pointer[string]
	giving   string // the command that gives its key
}

// New returns a Router that is ready. Close ends it.
func New(cfg Config) (*Router, error) {
	if cfg.Provider == nil {
		cfg.Provider = providers.New
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(string) (string, bool) { return "", false }
	}
	r := &Router{cfg: cfg, deployments: map[string]*deployment{}, of: map[string][]*deployment{}, answer: map[string][]*deployment{}, answers: newAnswers(), between: map[string]*control.Tries{}, brought: map[book]*Router{}}
	var traffics []control.Deployment
	var aliases []control.Alias
	for _, m := range cfg.Models {
		d, err := r.deploy(m)
		if err != nil {
			return nil, err
		}
		if len(r.of[m.Alias]) == 0 {
			r.aliases = append(r.aliases, m.Alias)
			aliases = append(aliases, control.Alias{Name: m.Alias, Fallback: fallbacks(cfg.Models, m.Alias)})
		}
		r.of[m.Alias], r.deployments[d.name] = append(r.of[m.Alias], d), d
		at := slices.IndexFunc(aliases, func(a control.Alias) bool { return a.Name == m.Alias })
		aliases[at].Deployments = append(aliases[at].Deployments, d.name)
		traffics = append(traffics, d.traffic())
	}
	for _, a := range aliases {
		for _, name := range append([]string{a.Name}, a.Fallback...) {
			r.answer[a.Name] = append(r.answer[a.Name], r.of[name]...)
		}
	}
	var err error
	r.control, err = control.New(control.Config{Deployments: traffics, Aliases: aliases, Weight: cfg.Weight, Reserved: cfg.Reserved, Clock: cfg.Clock, Rand: cfg.Rand})
	return r, err
}

// now is the time.
func (r *Router) now() time.Time {
	if r.cfg.Clock.Now != nil {
		return r.cfg.Clock.Now()
	}
	return time.Now()
}

// Close ends the waiting of all who wait.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, own := range r.trees() {
		own.Close()
	}
	r.control.Close()
}

// fallbacks are the aliases that are asked when one cannot answer, in their order.
func fallbacks(all []models.Model, alias string) (chain []string) {
	for range all {
		next := ""
		for _, m := range all {
			if m.Alias == alias && m.Fallback != "" {
				next = m.Fallback
				break
			}
		}
		if next == "" {
			break
		}
		chain, alias = append(chain, next), next
	}
	return chain
}

// deploy makes a deployment of a declaration.
func (r *Router) deploy(m models.Model) (*deployment, error) {
	d := &deployment{name: models.DeploymentName(m.Alias, len(r.of[m.Alias])+1), model: m}
	if d.giving = "agentkernel llm key " + d.name; r.cfg.tree != 0 {
		d.giving += " --pid " + r.cfg.tree.String()
	}
	opts := llm.Options{BaseURL: m.Address(), APIVersion: m.APIVersion, Deployment: m.Deployment, Client: r.cfg.Client}
	switch {
	case m.Key.Given():
		opts.Key = d.givenKey
	case m.Key.Source != "":
		opts.Key = func(ctx context.Context) (string, error) { return m.Key.Read(ctx, r.cfg.Lookup) }
	}
	var err error
	if d.provider, err = r.cfg.Provider(m.Kind, opts); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "models", "model %s: %w", m.Alias, err).WithHint("%s", models.Form)
	}
	d.price, d.priced = m.PriceOf(r.cfg.Prices...)
	return d, nil
}

// traffic is a deployment as the controller knows it.
func (d *deployment) traffic() control.Deployment {
	m, traits := &d.model, d.provider.Traits()
	traits.OutputPrecharged = traits.OutputPrecharged || m.OutputKept()
	lacks := ""
	if m.Key.Given() {
		lacks = fmt.Sprintf("its key: `%s` gives it", d.giving)
	}
	return control.Deployment{Name: d.name, Lacks: lacks, Key: m.KeyName(), Family: m.Family(), Model: m.Name, Traits: traits, OutputKept: m.OutputKept(),
		Limits: traffic.Limits{Requests: traffic.Limit{Amount: m.RPM}, Tokens: traffic.Limit{Amount: m.TPM}, Input: traffic.Limit{Amount: m.IPM},
			Output: traffic.Limit{Amount: m.OPM}, Concurrency: int(m.Concurrent)}}
}

// Plan says how a query would be answered.
func (r *Router) Plan(q *llm.Query) (llm.Plan, error) {
	r, alias, err := r.routerFor(q)
	if err != nil {
		return nil, err
	}
	if err := checkExtra(q.Request.Extra); err != nil {
		return nil, err
	}
	p := &plan{r: r, q: q, alias: alias, size: sizeOf(q)}
	if q.Reuse > 0 && !q.Streams {
		if p.question, p.reuse = questionOf(alias, q); p.recall() != nil {
			return p, nil
		}
	}
	if err := p.wrap(); err != nil {
		return nil, err
	}
	for _, d := range r.answer[alias] {
		if err := p.consider(d); err != nil {
			return nil, err
		}
	}
	p.tries = r.resume(q.ID)
	return p, nil
}

// keep keeps the tries of a query until it is planned anew.
func (r *Router) keep(id string, tries *control.Tries) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.between[id] = tries
	}
	return !r.closed
}

// resume takes the tries of a query that is planned anew; nil: it was not tried.
func (r *Router) resume(id string) *control.Tries {
	r.mu.Lock()
	defer r.mu.Unlock()
	tries := r.between[id]
	delete(r.between, id)
	return tries
}

// forget drops the tries of a query, unless another plan has them. It says whether they are at their end.
func (r *Router) forget(id string, tries *control.Tries) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.between[id] == tries {
		delete(r.between, id)
		return true
	}
	return false
}

// unknown is the error for an alias that is not declared.
func unknown(alias string, declared []string) error {
	if len(declared) == 0 {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm", "no model is configured").
			WithHint(`the setting models declares them: models = ["fast openai:gpt-5-mini"]; docs/llm.md says how`)
	}
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "llm", "there is no model %q", clip.Short(alias))
	all := "there are " + strings.Join(declared, ", ")
	if len(declared) == 1 {
		return e.WithHint("did you mean %s? No other is declared", declared[0])
	}
	if q := nearest.Question(alias, declared); q != "" {
		return e.WithHint("%s %s", q, all)
	}
	return e.WithHint("%s", all)
}

// consider adds what a deployment may cost to what the plan reserves.
func (p *plan) consider(d *deployment) error {
	out := p.q.Request.MaxTokens
	if out == 0 {
		out = d.model.Cap()
	}
	if p.q.Embed != nil {
		out = 0
	}
	in := p.size.most(d.model.Name)
	if d.model.Context > 0 && in > d.model.Context { // more is refused, and costs nothing
		in = d.model.Context
	}
	p.tokens, p.most = max(p.tokens, in+out), max(p.most, out)
	if d.price == nil {
		if p.q.Bounded {
			return d.model.Unpriced()
		}
		return nil
	}
	p.usd = max(p.usd, d.price.Bound(in, out))
	return nil
}
