package router

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/nearest"
)

// Give hands over the key of a deployment that is declared with key=given, in place of the one before: of the kernel's own or, with
// brought, of those that the processes of a tree have brought. It is in memory alone.
func (r *Router) Give(tree agentkernel.PID, brought []string, name, key string) error {
	if len(brought) > 0 {
		own, err := r.ofTree(tree, brought)
		if err != nil {
			return err
		}
		r = own
	}
	d := r.deployments[name]
	if d == nil {
		return r.noneToGive(name)
	}
	if !d.model.Key.Given() {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "key", "the key of the model %s is not given: %s", name, whereKeyIs(d.model.Key)).
			WithHint("only a model that is declared with key=given is given one")
	}
	clean, err := models.Clean(key)
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "key", "what was given for the model %s is no key: %w", name, err)
	}
	d.given.Store(&clean)
	r.control.Equip(d.name)
	return nil
}

func whereKeyIs(k models.Key) string {
	if k.Source == "" {
		return "it has none"
	}
	return "its declaration says " + k.Source
}

// noneToGive is the error for a deployment that is not declared.
func (r *Router) noneToGive(name string) error {
	var given []string
	for _, d := range r.deployments {
		if d.model.Key.Given() {
			given = append(given, d.name)
		}
	}
	slices.Sort(given)
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "key", "there is no model %q", clip.Short(name))
	if len(given) == 0 {
		return e.WithHint("no model is declared with key=given; docs/llm.md says how")
	}
	if q := nearest.Question(name, given); q != "" {
		return e.WithHint("%s", q)
	}
	return e.WithHint("keys are given to %s", strings.Join(given, ", "))
}

// givenKey is the key that somebody gave.
func (d *deployment) givenKey(context.Context) (string, error) {
	if key := d.given.Load(); key != nil {
		return *key, nil
	}
	return "", errors.New("nobody has given it") // the controller sends nothing before
}
