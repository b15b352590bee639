package router

import (
	"cmp"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
)

// What a process may bring (agentkernel.Spec.Models).
const (
	mostBrought    = 16
	longestBrought = 2 << 10        // of one declaration, in bytes
	answersBrought = maxAnswers / 8 // that are kept for a tree
)

// book names models that the processes of a tree have brought. Each has a Router of its own: queue, limits, keys and answers are nobody
// else's, and go with the tree.
type book struct {
	tree     agentkernel.PID
	declared string
}

func bookOf(tree agentkernel.PID, declared []string) book {
	return book{tree, strings.Join(declared, "\n")}
}

// Check refuses declarations that no process may bring: those of a key that is not given. The others are of whoever runs the kernel, and
// would go to whatever server the declaration names.
func (r *Router) Check(declared []string) error {
	if len(declared) > mostBrought {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "models", "a process brings %d models; %d are the most", len(declared), mostBrought)
	}
	for _, text := range declared {
		if len(text) > longestBrought {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "models", "a declaration of %d bytes is too long: %d are the most", len(text), longestBrought)
		}
	}
	all, err := models.ParseAll(declared)
	if err != nil {
		return err
	}
	for i := range all {
		if m := &all[i]; m.Key.Source != "" && !m.Key.Given() {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "models", "model %s: the key of a model that a process brings is given, and not that of whoever runs the kernel", m.Alias).
				WithHint("write key=given, and give it when the process has been started; ollama and vllm need none")
		}
	}
	own, err := r.forTree(0, all)
	if err != nil {
		return err
	}
	own.Close()
	return nil
}

// forTree makes the Router of models that the processes of a tree have brought.
func (r *Router) forTree(tree agentkernel.PID, all []models.Model) (*Router, error) {
	cfg := r.cfg
	cfg.Models, cfg.Lookup, cfg.Reserved, cfg.tree = all, nil, nil, tree
	own, err := New(cfg)
	if err != nil {
		return nil, err
	}
	own.answers.max = answersBrought
	return own, nil
}

// ofTree is the Router of models that the processes of a tree have brought.
func (r *Router) ofTree(tree agentkernel.PID, declared []string) (*Router, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := bookOf(tree, declared)
	if own := r.brought[name]; own != nil {
		return own, nil
	}
	if r.closed {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "llm", "the kernel is shutting down")
	}
	all, err := models.ParseAll(declared)
	if err != nil {
		return nil, err
	}
	own, err := r.forTree(tree, all)
	if err != nil {
		return nil, err
	}
	r.brought[name] = own
	return own, nil
}

// routerFor is the Router that has the model of a query, and its alias there.
func (r *Router) routerFor(q *llm.Query) (has *Router, alias string, err error) {
	if len(q.Brought) > 0 {
		own, err := r.ofTree(q.Tree, q.Brought)
		if err != nil {
			return nil, "", err
		}
		if alias = cmp.Or(q.Model, own.aliases[0]); len(own.of[alias]) > 0 {
			return own, alias, nil
		}
		if len(r.of[q.Model]) == 0 {
			return nil, "", unknown(q.Model, union(own.aliases, r.aliases))
		}
	}
	if alias = q.Model; alias == "" && len(r.aliases) > 0 {
		alias = r.aliases[0]
	}
	if len(r.of[alias]) == 0 {
		return nil, "", unknown(alias, r.aliases)
	}
	return r, alias, nil
}

// union is all of a, and what else is in b.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(a, name) {
			all = append(all, name)
		}
	}
	return all
}

// Ended drops what there is for a tree that has ended.
func (r *Router) Ended(tree agentkernel.PID) {
	r.mu.Lock()
	var gone []*Router
	for name, own := range r.brought {
		if name.tree == tree {
			delete(r.brought, name)
			gone = append(gone, own)
		}
	}
	r.mu.Unlock()
	for _, own := range gone {
		own.Close()
	}
}

// trees are the Routers of trees, in their order.
func (r *Router) trees() (all []*Router) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]book, 0, len(r.brought))
	for name := range r.brought {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b book) int { return cmp.Or(cmp.Compare(a.tree, b.tree), cmp.Compare(a.declared, b.declared)) })
	for _, name := range names {
		all = append(all, r.brought[name])
	}
	return all
}
