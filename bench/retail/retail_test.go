package retail

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const madeUp = "../testdata/tau2"

// open reads the data and the tasks of a checkout, or of what is made up like one.
func open(t *testing.T, dir string) (*Data, []Task) {
	t.Helper()
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(dir, "data", "tau2", "domains", "retail", name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	data, err := ReadData(read("db.json"))
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := ReadTasks(read("tasks.json"))
	if err != nil {
		t.Fatal(err)
	}
	return data, tasks
}

// TestSameAsTheBenchmark does all tasks with the tools of the benchmark itself, and compares every answer and every hash.
func TestSameAsTheBenchmark(t *testing.T) {
	checkout := os.Getenv("AGENTKERNEL_TAU2")
	if checkout == "" {
		t.Skip("NOT COMPARED WITH THE BENCHMARK: AGENTKERNEL_TAU2 is to be a checkout of github.com/sierra-research/tau2-bench")
	}
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import pydantic").Run(); err != nil {
		t.Skip("NOT COMPARED WITH THE BENCHMARK: its tools need python3 with pydantic")
	}
	for name, dir := range map[string]string{"benchmark": checkout, "made up": madeUp} {
		t.Run(name, func(t *testing.T) {
			data, tasks := open(t, dir)
			cmd := exec.CommandContext(t.Context(), "python3", "testdata/gold.py", checkout, dir)
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			theirs := map[string]result{}
			for line := range bytes.Lines(out) {
				var r result
				if err := json.Unmarshal(line, &r); err != nil {
					t.Fatal(err)
				}
				theirs[r.ID] = r
			}
			for _, task := range tasks {
				compare(t, task, theirs[task.ID], data.Open())
			}
			t.Logf("%d tasks compared", len(tasks))
		})
	}
}

// result is a line of testdata/gold.py.
type result struct {
	ID, Hash string
	Answers  []string
}

func compare(t *testing.T, task Task, want result, shop *Shop) {
	t.Helper()
	for _, a := range task.Actions {
		_, _ = shop.Do(a) // a refusal is an answer, too
	}
	calls := shop.Calls()
	if len(calls) != len(want.Answers) {
		t.Fatalf("task %s: %d answers, not %d", task.ID, len(calls), len(want.Answers))
	}
	for i, c := range calls {
		if c.Answer != want.Answers[i] {
			t.Errorf("task %s, call %d, %s %s:\n%s\nnot\n%s", task.ID, i, c.Name, c.Arguments, c.Answer, want.Answers[i])
		}
	}
	if got, err := shop.Digest(); err != nil || got != want.Hash {
		t.Errorf("task %s: the hash is %s, %v, not %s", task.ID, got, err, want.Hash)
	}
}

// TestTools does calls one after the other in one shop.
func TestTools(t *testing.T) {
	data, _ := open(t, madeUp)
	shop := data.Open()
	before, err := shop.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"calculate", `{"expression":"(1 + 2) * -3.5 / 4"}`, "-2.62"},
		{"calculate", `{"expression":"0.1 + 0.2"}`, "0.3"},
		{"calculate", `{"expression":"7"}`, "7.0"},
		{"calculate", `{"expression":"1 / 0"}`, "Error: division by zero"},
		{"calculate", `{"expression":"(1"}`, "Error: invalid syntax"},
		{"calculate", `{"expression":"a"}`, "Error: Invalid characters in expression"},
		{"nothing", `{}`, "Error: Tool 'nothing' not found."},
		{"get_order_details", `{}`, "Error: the argument order_id is missing"},
		{"get_order_details", `{"order_id":"#W1","x":1}`, "Error: there is no argument x"},
		{"find_user_id_by_email", `{"email":"BO.EK@example.com"}`, "bo_ek_2"},
		{"find_user_id_by_name_zip", `{"first_name":"bo","last_name":"ek","zip":"1"}`, "Error: User not found"},
		{"get_item_details", `{"item_id":"1202"}`, `{"item_id": "1202", "options": {"size": "0.5 l"}, "available": true, "price": 39.99}`},
		{"list_all_product_types", `{}`, `{"Kettle \u2013 small": "12", "Lamp": "11"}`},
		{"exchange_delivered_order_items", `{"order_id":"#W1","item_ids":["1101"],"new_item_ids":["1103"],"payment_method_id":"gift_card_1"}`, "Error: New item 1103 not found or available"},
		{"exchange_delivered_order_items", `{"order_id":"#W1","item_ids":["1101","1101","1101"],"new_item_ids":["1102","1102","1102"],"payment_method_id":"gift_card_1"}`, "Error: Number of 1101 not found."},
		{"exchange_delivered_order_items", `{"order_id":"#W1","item_ids":["1101","1101"],"new_item_ids":["1104","1104"],"payment_method_id":"gift_card_1"}`, "Error: Insufficient gift card balance to pay for the price difference"},
		{"exchange_delivered_order_items", `{"order_id":"#W1","item_ids":["1101"],"new_item_ids":["1202"],"payment_method_id":"gift_card_1"}`, "Error: Variant not found"},
		{"exchange_delivered_order_items", `{"order_id":"#W2","item_ids":[],"new_item_ids":[],"payment_method_id":"gift_card_1"}`, "Error: Non-delivered order cannot be exchanged"},
		{"return_delivered_order_items", `{"order_id":"#W4","item_ids":["1104"],"payment_method_id":"paypal_2"}`, "Error: Payment method should be the original payment method"},
		{"modify_pending_order_items", `{"order_id":"#W2","item_ids":["1101"],"new_item_ids":["1101"],"payment_method_id":"gift_card_1"}`, "Error: The new item id should be different from the old item id"},
		{"modify_pending_order_payment", `{"order_id":"#W3","payment_method_id":"paypal_2"}`, "Error: The new payment method should be different from the current one"},
		{"cancel_pending_order", `{"order_id":"#W3","reason":"why not"}`, "Error: Invalid reason"},
	} {
		answer, err := shop.Do(Action{Name: c.tool, Arguments: json.RawMessage(c.arguments)})
		if err != nil {
			answer = "Error: " + err.Error()
		}
		if answer != c.want {
			t.Errorf("%s %s = %s, not %s", c.tool, c.arguments, answer, c.want)
		}
	}
	if after, err := shop.Digest(); err != nil || after != before {
		t.Errorf("what only reads, and what was refused, has changed the shop: %v", err)
	}
}

// theirHashes are those of the benchmark's own tools after each of the tasks that are made up; testdata/gold.py prints them.
var theirHashes = []string{
	"a537cd3afd00936b798880752131a1e3188de1a6b31c1080ec792b7b11eb23d8",
	"219fe7749af6d96a9e6f46bc498018e293e28b26b4d547393384ca89b2241045",
	"068914f4be72b0addbc32ae5126bd03f0a8730eb0319cb177eda7c4297658704",
}

// TestTasks does the tasks that are made up.
func TestTasks(t *testing.T) {
	data, tasks := open(t, madeUp)
	if len(tasks) != 3 {
		t.Fatalf("%d tasks have actions, not 3", len(tasks))
	}
	seen := map[string]bool{}
	for i, want := range [][]string{
		{`"status": "exchange requested"`, `"exchange_price_difference": 11.05`, `"balance": 12.0`},
		{`"status": "pending (item modified)"`, `"amount": 1.1599999999999966`, `"balance": 13.16`, `"address2": "c/o Zo\u00eb"`, `"address1": "3 Quay \"C\""`},
		{`"cancel_reason": "no longer needed"`, `"status": "return requested"`, `"return_items": ["1104"]`},
	} {
		shop, refused := data.Open(), 0
		for _, a := range tasks[i].Actions {
			seen[a.Name] = true
			if _, err := shop.Do(a); err != nil {
				refused++
			}
		}
		if refused != []int{1, 0, 1}[i] {
			t.Errorf("task %d: %d calls were refused", i, refused)
		}
		if got, err := shop.Digest(); err != nil || got != theirHashes[i] {
			t.Errorf("task %d: the hash is %s, %v, not %s", i, got, err, theirHashes[i])
		}
		text, err := pythonText(shop.db)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("task %d: %s is not in the end state", i, part)
			}
		}
	}
	for _, tool := range tools {
		if !seen[tool.name] {
			t.Errorf("no task calls %s", tool.name)
		}
	}
}

// TestAmounts: numbers are written and rounded as Python does.
func TestAmounts(t *testing.T) {
	for x, want := range map[amount]string{1: "1.0", 0: "0.0", -3.5: "-3.5", 2.842170943040401e-14: "2.842170943040401e-14", 1e16: "1e+16", 1e15: "1000000000000000.0", 1e-4: "0.0001", 1e-5: "1e-05"} {
		if x.String() != want {
			t.Errorf("%v is written %s, not %s", float64(x), x, want)
		}
	}
	for x, want := range map[amount]amount{2.675: 2.67, 0.125: 0.12, 1.005: 1, -1.115: -1.11, 5: 5} {
		if cents(x) != want {
			t.Errorf("%v is rounded to %v, not %v", float64(x), cents(x), want)
		}
	}
}
