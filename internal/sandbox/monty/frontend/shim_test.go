package frontend

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/guest"
	"agentkernel/internal/sandbox/monty/intrinsic"
)

func programOf(text string) agentkernel.Program {
	return agentkernel.Program{Name: "x", Language: agentkernel.Python, Source: text}
}

// TestShims holds every shim to the rules that feeding its definitions one by one relies on.
func TestShims(t *testing.T) {
	intrinsics := map[string]bool{}
	for _, n := range intrinsic.Names() {
		intrinsics[n] = true
	}
	for module, sh := range shims() {
		for name, u := range sh().units {
			switch root := firstPart(u.from); {
			case u.from == "":
			case root == "kernel":
				if !kernelFunction(strings.TrimPrefix(strings.TrimPrefix(u.from+"."+u.attr, "kernel."), "aio.")) {
					t.Errorf("%s imports %s of %s, which is not there", module, u.attr, u.from)
				}
			case root == "intrinsic":
				if !intrinsics[u.attr] {
					t.Errorf("%s imports intrinsic %s, which is not there", module, u.attr)
				}
			case root == "engine" || root == "program" || root == "output":
			default:
				if !knownModule(u.from) || u.attr != "" && !hasName(u.from, u.attr) && shimOf(u.from).units[u.attr] == nil {
					t.Errorf("%s imports %s of %s, which is not there", module, u.attr, u.from)
				}
			}
			for _, p := range u.pieces {
				if p.ref != "" && sh().units[p.ref] == nil {
					t.Errorf("%s: %s uses %s, which is not there", module, name, p.ref)
				}
			}
		}
	}
}

// TestShimNames: a parameter or local variable with the name of a top-level definition would be renamed.
func TestShimNames(t *testing.T) {
	for module, src := range shimSources(t) {
		sh := shimOf(module)
		for i := range src.stmts {
			st := &src.stmts[i]
			bound := map[string]bool{}
			inClass := st.parent >= 0 && src.stmts[st.parent].kw == "class" && src.stmts[st.parent].parent < 0
			switch {
			case st.kw == "def":
				at := st.first + 2
				for !src.is(at, "(") {
					at++
				}
				src.bindParameters(bound, at+1, 1, false)
			case st.parent >= 0 && !inClass && st.kw != "class":
				if end := src.assignEnd(st); end > st.first {
					src.bindTargets(bound, st.first, end)
				}
				src.bindInside(bound, st.first, st.last)
			}
			for name := range bound {
				if sh.units[name] != nil {
					t.Errorf("guest/monty/%s.py line %d: %s is also a top-level name", module, src.line(st.first), name)
				}
			}
		}
	}
}

func shimSources(t *testing.T) map[string]*source {
	t.Helper()
	out := map[string]*source{}
	entries, err := guest.Monty.ReadDir("monty")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := guest.Monty.ReadFile("monty/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		src, perr := parse(e.Name(), string(text), false)
		if perr != nil {
			t.Fatal(perr)
		}
		out[strings.TrimSuffix(e.Name(), ".py")] = src
	}
	return out
}
