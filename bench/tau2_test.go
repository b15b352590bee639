package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel/bench/retail"
)

// tau2MadeUp opens the tasks that are made up, with an agent that can be run.
func tau2MadeUp(t *testing.T) *tau2Bench {
	t.Helper()
	b := newTinyBench(t)
	var err error
	if b.cli, err = goBuild(t.Context(), b.root, filepath.Join(b.tmp, "agentkernel"), "./cmd/agentkernel"); err != nil {
		t.Fatal(err)
	}
	x, err := openTau2(b, filepath.Join("testdata", "tau2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// TestTau2 does the tasks that are made up in all ways, and looks at what was counted.
func TestTau2(t *testing.T) {
	x := tau2MadeUp(t)
	for i, want := range []struct{ calls, refused, turns1, turns2 int }{
		{8, 1, 1 + 1 + 1, 2 + 1 + 1}, // a program anew after the call that is refused, the end
		{5, 0, 1 + 1, 2 + 1},
		{6, 1, 1 + 1 + 1, 1 + 1 + 1 + 1},
	} {
		done, err := x.do(t.Context(), x.tasks[i])
		if err != nil {
			t.Fatal(err)
		}
		calls, one, two := done.cost[wayCalls], done.cost[wayOne], done.cost[wayTwo]
		if done.calls != want.calls || done.refused != want.refused || calls.turns != want.calls+1 {
			t.Errorf("task %d: %d calls, %d refused, %d turns", i, done.calls, done.refused, calls.turns)
		}
		if one.turns != want.turns1 || two.turns != want.turns2 {
			t.Errorf("task %d: %d and %d turns of programs, not %d and %d", i, one.turns, two.turns, want.turns1, want.turns2)
		}
		if !done.looks || one.lines <= done.calls || two.lines <= one.lines || calls.lines != 0 {
			t.Errorf("task %d: looks %v, %d and %d lines of programs, %d of calls", i, done.looks, one.lines, two.lines, calls.lines)
		}
		for way, c := range done.cost {
			if c.written == 0 || c.once <= c.written || c.sent <= c.once {
				t.Errorf("task %d, %s: %+v", i, wayNames[way], c)
			}
		}
	}
}

// TestTau2NeedsPermission: a program that writes changes nothing without --allow, and that is seen.
func TestTau2NeedsPermission(t *testing.T) {
	x := tau2MadeUp(t)
	task, gold, shop := x.tasks[1], x.data.Open(), x.data.Open()
	for _, a := range task.Actions {
		if _, err := gold.Do(a); err != nil {
			t.Fatal(err)
		}
	}
	before, err := shop.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.byPrograms(t.Context(), task, onePrograms(gold.Calls()), shop, nil); err != nil {
		t.Fatal(err)
	}
	if after, err := shop.Digest(); err != nil || after != before {
		t.Errorf("the database has changed, %v", err)
	}
	if n := len(shop.Calls()); n != 2 {
		t.Errorf("%d calls were made, not the 2 in front of the first that writes", n)
	}
	if err := sameShop(shop, gold); err == nil {
		t.Error("it is not seen that the task was not done")
	}
}

func TestTau2WithoutData(t *testing.T) {
	b := newTinyBench(t)
	b.scale = quick
	o := b.measureSection(t.Context(), tau2Section)
	var out strings.Builder
	report{Sections: []outcome{o}}.markdown(&out)
	if o.Error != "" || !strings.Contains(out.String(), "SKIPPED, NOTHING WAS MEASURED: git clone https://github.com/sierra-research/tau2-bench") {
		t.Errorf("%s\n%s", o.Error, out.String())
	}
}

func madeCalls(failed string) (calls []retail.Call) {
	for _, a := range [][2]string{
		{"find_user_id_by_email", `{"email": "a\"b@example.com"}`},
		{"get_order_details", `{"order_id": "#W1"}`},
		{"return_delivered_order_items", `{"order_id": "#W1", "item_ids": ["1", "2"], "payment_method_id": "é"}`},
		{"calculate", `{"expression": "1 + 1"}`},
	} {
		calls = append(calls, retail.Call{Action: retail.Action{Name: a[0], Arguments: json.RawMessage(a[1])}, Failed: a[0] == failed})
	}
	return calls
}

func TestTau2Programs(t *testing.T) {
	one := onePrograms(madeCalls(""))
	const want = `from tools.retail import find_user_id_by_email, get_order_details, return_delivered_order_items, calculate

find_user_id_by_email(email="a\"b@example.com")
get_order_details(order_id="#W1")
print(return_delivered_order_items(order_id="#W1", item_ids=["1", "2"], payment_method_id="é")["status"])
print(calculate(expression="1 + 1"))
`
	if len(one) != 1 || string(one[0]) != want || one[0].lines() != 5 {
		t.Errorf("%q", one)
	}
	two := twoPrograms(madeCalls(""))
	if len(two) != 2 || !strings.Contains(string(two[0]), "print(find_user_id_by_email(") || !strings.Contains(string(two[0]), `print(it["status"], it["items"]`) || strings.Contains(string(two[0]), "return_") || strings.Contains(string(two[1]), "get_order") {
		t.Errorf("%q", two)
	}
	// What a tool refuses ends the program, and what is behind it is written once more.
	again := onePrograms(madeCalls("get_order_details"))
	if len(again) != 2 || again[0] != one[0] || strings.Contains(string(again[1]), "get_order") || !strings.Contains(string(again[1]), "calculate") {
		t.Errorf("%q", again)
	}
	// A tool whose signature was not shown is asked for first.
	shown := " find_user_id_by_email(email: str) get_order_details(order_id: str) return_delivered_order_items("
	if all := withSignatures(one, shown); len(all) != 2 || !strings.Contains(string(all[0]), `"calculate"`) || strings.Contains(string(all[0]), "get_order") {
		t.Errorf("%q", all)
	}
	if all := withSignatures(one, shown+" calculate("); len(all) != 1 {
		t.Errorf("%q", all)
	}
}

// TestTau2Cost counts a conversation of two turns.
func TestTau2Cost(t *testing.T) {
	p, err := newProvider()
	if err != nil {
		t.Fatal(err)
	}
	defer p.web.Close()
	tokens := func(text string) int {
		n, err := p.codec.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const (
		tools = `[{"function":{"name":"f","description":"does it","parameters":{"type":"object"}}}]`
		said  = `{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"x\":1}"}}]}`
	)
	p.exchanged = []exchange{
		{[]byte(`{"tools":` + tools + `,"messages":[{"role":"user","content":"do it"}]}`), []byte(`{"choices":[{"message":` + said + `}]}`)},
		{[]byte(`{"tools":` + tools + `,"messages":[{"role":"user","content":"do it"},` + said + `,{"role":"tool","content":"it is done","tool_call_id":"1"}]}`), []byte(`{"choices":[{"message":{"content":"fine"}}]}`)},
	}
	declared, asked, call, result, end := tokens(`{"description":"does it","input_schema":{"type":"object"},"name":"f"}`), tokens("do it"), tokens(`{"name":"f","input":{"x":1}}`), tokens("it is done"), tokens("fine")
	got, err := p.cost()
	want := cost{once: declared + asked + call + result + end, sent: 2*(declared+asked) + 2*call + result + end, written: call + end, turns: 2}
	if err != nil || got != want {
		t.Errorf("%+v, %v, not %+v", got, err, want)
	}
}
