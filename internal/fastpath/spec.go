package fastpath

import (
	"encoding/binary"
	"maps"
	"slices"

	"agentkernel"
)

// Key is all of a Spec that asks for nothing special beyond tools, but for the program's text and modules.
type Key struct {
	Name, Backend, Namespace string
	Language                 agentkernel.Language
	Priority                 int
	Durability               agentkernel.Durability
	Interactive              bool
	tools                    string // the tools that it may use, and what it may do with them: see tools
}

// tools are the fields of a Spec that say which tools a program may use, each with its length.
func tools(s *agentkernel.Spec) string {
	if s.Tools == nil && s.ToolDigests == nil && s.Allow == nil && s.AllowHosts == nil && s.Deny == nil {
		return ""
	}
	var room [512]byte
	b := room[:0]
	for _, list := range [][]string{s.Tools, s.Allow, s.AllowHosts, s.Deny} {
		b = number(b, len(list), list == nil)
		for _, text := range list {
			b = append(number(b, len(text), false), text...)
		}
	}
	b = number(b, len(s.ToolDigests), s.ToolDigests == nil)
	for _, name := range slices.Sorted(maps.Keys(s.ToolDigests)) {
		b = append(number(b, len(name), false), name...)
		b = append(number(b, len(s.ToolDigests[name]), false), s.ToolDigests[name]...)
	}
	return string(b)
}

// number adds a number of things; none: there is no list of them, which is not an empty one.
func number(b []byte, n int, none bool) []byte {
	if none {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

// longest is how many bytes of tools a Key has at most: what is remembered of them has a bound.
const longest = 2 << 10

// Of gives the Key of a Spec, and whether the Spec is no more than that.
func Of(s *agentkernel.Spec) (Key, bool) {
	p, tools := &s.Program, tools(s)
	return Key{p.Name, s.Backend, s.Namespace, p.Language, s.Priority, s.Durability, s.Interactive, tools},
		len(tools) <= longest && p.Args == nil && p.Host == "" && !p.Session && p.Earlier == nil && p.Cells == 0 &&
			s.Isolation == "" && s.Limits == agentkernel.Limits{} && alone(s) &&
			s.Models == nil && s.OnUnknown == "" &&
			s.Restart == "" && s.IdempotencyKey == "" && s.Past == nil && s.Workspace == nil && s.Volumes == nil && s.Stdin == ""
}

// alone says that a Spec is of a process without relatives, and without an end that others have set.
func alone(s *agentkernel.Spec) bool {
	return s.Parent == 0 && s.Ancestors == nil && !s.Detached && s.DetachedFrom == 0 && s.Deadline.IsZero() &&
		s.Budget == agentkernel.Budget{} && s.OnBudget == "" && s.Budgets == nil && !s.BudgetsUSD && !s.BudgetsTime
}

// maxTexts bounds Texts.
const maxTexts = 256

// Texts remembers texts by what they follow from. It is not safe for concurrent use.
type Texts[K comparable, T ~string | ~[]byte] struct {
	texts    map[K]T
	last     K // the one that was asked for last is found without looking it up
	lastText T
}

// Get gives the text of a key, made by its maker if it is not remembered.
func (t *Texts[K, T]) Get(key K, make func() (T, error)) (T, error) {
	if len(t.lastText) > 0 && key == t.last {
		return t.lastText, nil
	}
	text, ok := t.texts[key]
	if !ok {
		var err error
		if text, err = make(); err != nil {
			return text, err
		}
		if t.texts == nil || len(t.texts) >= maxTexts {
			t.texts = map[K]T{}
		}
		t.texts[key] = text
	}
	t.last, t.lastText = key, text
	return text, nil
}
