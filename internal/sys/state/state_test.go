package state_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys/state"
	"agentkernel/internal/sys/systest"
)

func TestWorkingSet(t *testing.T) {
	p := systest.New(t, state.Family())
	for _, c := range []struct{ op, args, want, state string }{
		{"get", `{"key":"a"}`, `null`, ""},
		{"get", `{"key":"a","default":[1]}`, `[1]`, ""},
		{"delete", `{"key":"a"}`, `false`, ""},
		{"set", `{"key":"a","value":{"x":1.50}}`, `null`, `a={"x":1.50}`},
		{"set", `{"key":"","value":null}`, `null`, `=null`},
		{"get", `{"key":"a","default":[1]}`, `{"x":1.50}`, ""},
		{"get", `{"key":"","default":[1]}`, `null`, ""}, // it is set, to None
		{"keys", `{}`, `["","a"]`, ""},
		{"delete", `{"key":"a"}`, `true`, `a=`},
		{"keys", `{}`, `[""]`, ""},
	} {
		out, err := p.Now(t, "state."+c.op, c.args)
		var changed []string
		for k, v := range out.State {
			changed = append(changed, k+"="+string(v))
		}
		if err != nil || string(out.Result) != c.want || strings.Join(changed, ",") != c.state {
			t.Errorf("%s %s: %s, %q, %v; want %s, %q", c.op, c.args, out.Result, changed, err, c.want, c.state)
		}
	}
}

// What is refused changes nothing.
func TestWorkingSetIsBounded(t *testing.T) {
	p := systest.New(t, state.Family())
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	set := func(key, value string) error {
		before := maps.Clone(p.Keys)
		out, err := p.Now(t, "state.set", fmt.Sprintf(`{"key":%q,"value":%s}`, key, value))
		if err != nil && (out.State != nil || !maps.EqualFunc(before, p.Keys, func(a, b json.RawMessage) bool { return len(a) == len(b) })) {
			t.Errorf("%q was refused, and changed something", key)
		}
		return err
	}
	for _, key := range []string{"1", "2", "3"} {
		p.Keys[key] = json.RawMessage(text(16 << 20))
	}
	for _, c := range []struct {
		key, value string
		want       agentkernel.Code
	}{
		{strings.Repeat("k", 1024), "1", ""},
		{strings.Repeat("k", 1025), "1", agentkernel.CodeInvalid},
		{"v", text(16<<20 + 1), agentkernel.CodeInvalid},
		{"4", text(16 << 20), agentkernel.CodeLimit}, // 64 MiB with the keys
		{"3", text(8 << 20), ""},                     // smaller
		{"4", text(16 << 20), ""},
	} {
		if err := set(c.key, c.value); agentkernel.CodeOf(err) != c.want {
			t.Errorf("set of a key of %d bytes to %d bytes: %v, want %q", len(c.key), len(c.value), err, c.want)
		}
	}
	clear(p.Keys)
	for i := range 10_000 {
		p.Keys[fmt.Sprint(i)] = json.RawMessage("1")
	}
	if err := set("one more", "1"); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("10,001 keys: %v", err)
	}
	if err := set("7", "2222"); err != nil {
		t.Errorf("a key that is there: %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	p := systest.New(t, state.Family())
	for _, c := range [][2]string{
		{"set", `{"key":"a"}`}, {"set", `{"key":1,"value":2}`}, {"get", `{"name":"a"}`}, {"delete", `{"key":["a"]}`}, {"keys", `{"key":"a"}`},
	} {
		if out, err := p.Now(t, "state."+c[0], c[1]); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s %s: %s, %v", c[0], c[1], out.Result, err)
		}
	}
}
