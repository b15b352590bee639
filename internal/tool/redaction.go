package tool

import (
	"context"
	"encoding/json"
	"strings"

	"agentkernel"
)

// redaction is what a set of servers knows of secrets, for what leaves the kernel altogether: here the values of env
// that merely may be secrets are taken out of results, too.
type redaction struct{ secrets redactor }

// Redaction implements agentkernel.SecretKeeper.
func (s *set) Redaction(context.Context) (agentkernel.Redaction, error) {
	v, err := s.refresh()
	if err != nil {
		return nil, err
	}
	r := &redaction{}
	for _, e := range v.entries {
		if e.problem != nil && !e.disabled {
			return nil, e.problem
		}
		r.secrets.secrets = append(r.secrets.secrets, e.secrets.secrets...)
	}
	r.secrets.seal()
	return r, nil
}

// Text takes every secret out.
func (r *redaction) Text(s string) string { return r.secrets.text(s) }

// JSON takes every secret out of the strings of a value, and out of its numbers what is surely one.
func (r *redaction) JSON(raw json.RawMessage) json.RawMessage {
	return redactJSON(&r.secrets.all, r.secrets.numbers, raw)
}

// Source takes out what is surely a secret, and what may be one where it stands in quotes: anywhere else it is
// part of the program.
func (r *redaction) Source(s string) string {
	s = r.secrets.surely.String(s)
	for _, sec := range r.secrets.secrets {
		if sec.strong {
			continue
		}
		for _, quote := range []string{`"`, `'`} {
			s = strings.ReplaceAll(s, quote+sec.value+quote, quote+sec.mask+quote)
		}
	}
	return s
}
