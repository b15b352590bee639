package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/bench/retail"
)

var tau2Section = section{
	name: "tau2", title: "Retail tasks of tau2-bench: calls and programs", asked: true,
	about: "The gold actions of the retail tasks of tau2-bench, made once one by one, as a model with function calling makes them, and twice by programs that `agentkernel do` runs before `devllm`: all of them in one program, whose " +
		"author knows the arguments, and in two, of which the first prints what the second is written by. Tools are those of bench/retail on both sides. " +
		"After each task the database is that of the gold actions, by its hash. Tokens are those of o200k, counted as `make bench-tokens` does, from what `devllm` was sent and answered: " +
		"\"once\" counts what is sent again with every turn the first time alone, \"sent\" each time.",
	run: measureTau2,
}

// tau2Missing is what is said where there are no tasks.
const tau2Missing = "SKIPPED, NOTHING WAS MEASURED: git clone https://github.com/sierra-research/tau2-bench, then -only tau2 -tau2 tau2-bench"

// tau2Bench does the tasks.
type tau2Bench struct {
	policy string
	data   *retail.Data
	tasks  []retail.Task

	provider *provider
	commands commandLine
	shops    *httptest.Server // MCP servers of shops, by path
	open     sync.Map         // *retail.Shop by path
	runs     int              // of agents
	asked    int              // of these, such as had to ask for the signature of a tool
}

// ways of doing a task.
const (
	wayCalls = iota
	wayOne
	wayTwo
	ways
)

var wayNames = [ways]string{"calls one by one", "one program", "look, then act"}

// tau2Task is a task that was done in all ways.
type tau2Task struct {
	calls, refused int
	looks          bool // some of its calls read, in front of others that write
	cost           [ways]cost
}

func measureTau2(ctx context.Context, b *bench) (_ []table, err error) {
	dir := b.tau2
	if dir == "" && b.scale == tiny {
		dir = filepath.Join(b.root, "bench", "testdata", "tau2") // made up, in the same format
	}
	if dir == "" {
		b.tell(tau2Missing)
		return []table{{Rows: []row{figure("tasks of tau2-bench", roleOurs, "%s", tau2Missing)}}}, nil
	}
	x, err := openTau2(b, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	var done []tau2Task
	for i, t := range x.tasks[:min(len(x.tasks), b.pick(len(x.tasks), 20, 3))] {
		one, err := x.do(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.ID, err)
		}
		if done = append(done, one); i%20 == 19 {
			b.tell("%d tasks of %d", i+1, len(x.tasks))
		}
	}
	return x.tables(done), nil
}

func openTau2(b *bench, dir string) (*tau2Bench, error) {
	x := &tau2Bench{}
	files := map[string][]byte{}
	for _, name := range []string{"policy.md", "db.json", "tasks.json"} {
		raw, err := os.ReadFile(filepath.Join(dir, "data", "tau2", "domains", "retail", name))
		if err != nil {
			return nil, fmt.Errorf("-tau2 is to be a checkout of tau2-bench: %w", err)
		}
		files[name] = raw
	}
	var err error
	if x.data, err = retail.ReadData(files["db.json"]); err != nil {
		return nil, err
	}
	if x.tasks, err = retail.ReadTasks(files["tasks.json"]); err != nil {
		return nil, err
	}
	x.policy = string(files["policy.md"])
	if x.provider, err = newProvider(); err != nil {
		return nil, err
	}
	x.shops = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if shop, ok := x.open.Load(r.URL.Path); ok {
			return shop.(*retail.Shop).Server() //nolint:forcetypeassert // nothing else is stored
		}
		return nil
	}, nil))
	if x.commands, err = b.commandLine(); err != nil {
		return nil, errors.Join(err, x.close())
	}
	x.commands.at.env = append(x.commands.at.env, agentsKey+"=sk-bench", "AGENTKERNEL_MODELS=fast openai:gpt-dev url="+x.provider.url+"/v1 key=env:"+agentsKey)
	return x, nil
}

func (x *tau2Bench) close() error {
	var err error
	if x.runs > 0 {
		err = x.commands.stop()
	}
	x.provider.web.Close()
	if x.shops != nil {
		x.shops.Close()
	}
	return err
}

// do does a task in all ways, and compares what was done.
func (x *tau2Bench) do(ctx context.Context, t retail.Task) (tau2Task, error) {
	gold := x.data.Open()
	for _, a := range t.Actions {
		_, _ = gold.Do(a) // a tool that refuses is part of the task
	}
	done := tau2Task{calls: len(t.Actions), looks: looks(gold.Calls())}
	for _, c := range gold.Calls() {
		if c.Failed {
			done.refused++
		}
	}
	for way, do := range [ways]func(context.Context, retail.Task, []retail.Call, *retail.Shop) error{x.byCalls, x.byOneProgram, x.byTwoPrograms} {
		shop := x.data.Open()
		err := do(ctx, t, gold.Calls(), shop)
		if err == nil {
			err = sameShop(shop, gold)
		}
		if err == nil {
			done.cost[way], err = x.provider.cost()
		}
		if err != nil {
			return done, fmt.Errorf("%s: %w", wayNames[way], err)
		}
	}
	return done, nil
}

// sameShop says what differs between what was done and what was to be done.
func sameShop(got, want *retail.Shop) error {
	a, err := got.Digest()
	if err != nil {
		return err
	}
	b, err := want.Digest()
	if err != nil {
		return err
	}
	made, due := got.Calls(), want.Calls()
	for i := range max(len(made), len(due)) {
		if i >= len(made) || i >= len(due) || made[i].Name != due[i].Name || made[i].Answer != due[i].Answer {
			return fmt.Errorf("%d calls were made, %d were due, and the first that differs is number %d", len(made), len(due), i+1)
		}
	}
	if a != b {
		return errors.New("the same calls have led to another database")
	}
	return nil
}

// byPrograms has an agent do the task with programs that its model writes.
func (x *tau2Bench) byPrograms(ctx context.Context, t retail.Task, programs []code, shop *retail.Shop, allow []string) error {
	x.provider.begin(func(request string) (string, []code) {
		all := withSignatures(programs, request)
		if len(all) > len(programs) {
			x.asked++
		}
		return programScript(all), all
	})
	x.runs++
	path := fmt.Sprintf("/%d", x.runs)
	x.open.Store(path, shop)
	defer x.open.Delete(path)
	config := filepath.Join(x.commands.at.dir, fmt.Sprintf("mcp-%d.json", x.runs))
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"retail":{"url":%q}}}`, x.shops.URL+path), 0o600); err != nil {
		return err
	}
	args := []string{"do", "--tools", config}
	for _, name := range allow {
		args = append(args, "--allow", "retail."+name)
	}
	return x.commands.run(ctx, allDone+"\n", append(args, "--", x.policy+"\n"+t.Wish)...)
}

func (x *tau2Bench) byOneProgram(ctx context.Context, t retail.Task, calls []retail.Call, shop *retail.Shop) error {
	return x.byPrograms(ctx, t, onePrograms(calls), shop, retail.Writers())
}

func (x *tau2Bench) byTwoPrograms(ctx context.Context, t retail.Task, calls []retail.Call, shop *retail.Shop) error {
	return x.byPrograms(ctx, t, twoPrograms(calls), shop, retail.Writers())
}

// tables are sums, medians, and where programs pay.
func (x *tau2Bench) tables(done []tau2Task) []table {
	sums, medians := table{Title: fmt.Sprintf("All %d tasks", len(done))}, table{Title: "The median task"}
	same := figure("tasks after which the database is the same, in all ways", roleOurs, "%d", len(done))
	same.judge("all", len(done) > 0) // another database is an error
	sums.Rows = append(sums.Rows, same)
	for _, f := range []struct {
		what string
		of   func(cost) int
	}{
		{"tokens, once", func(c cost) int { return c.once }},
		{"tokens, sent", func(c cost) int { return c.sent }},
		{"tokens that the model writes", func(c cost) int { return c.written }},
		{"turns of the model", func(c cost) int { return c.turns }},
	} {
		directSum, directMid := overAll(done, func(t tau2Task) int { return f.of(t.cost[wayCalls]) })
		for way, name := range wayNames {
			sum, mid := overAll(done, func(t tau2Task) int { return f.of(t.cost[way]) })
			role := roleOurs
			if way == wayCalls {
				role = rolePeer
			}
			s, m := figure(f.what+": "+name, role, "%d", sum), figure(f.what+": "+name, role, "%g", mid)
			if way != wayCalls {
				s.Ratio, m.Ratio = float64(sum)/float64(directSum), mid/directMid
			}
			sums.Rows, medians.Rows = append(sums.Rows, s), append(medians.Rows, m)
		}
	}
	calls, callsMid := overAll(done, func(t tau2Task) int { return t.calls })
	for way := wayOne; way < ways; way++ {
		lines, mid := overAll(done, func(t tau2Task) int { return t.cost[way].lines })
		s := figure(fmt.Sprintf("lines of code for %d calls: %s", calls, wayNames[way]), roleOurs, "%d", lines)
		m := figure(fmt.Sprintf("lines of code for %g calls: %s", callsMid, wayNames[way]), roleOurs, "%g", mid)
		s.Ratio, m.Ratio = float64(lines)/float64(calls), mid/callsMid
		sums.Rows, medians.Rows = append(sums.Rows, s), append(medians.Rows, m)
	}
	sums.Notes = []string{"Ratios are to calls one by one; that of lines of code is to the number of calls."}
	medians.Notes = []string{"Ratios are those of the medians."}
	return []table{sums, medians, x.bySize(done)}
}

// overAll is the sum and the median of something of each task.
func overAll(done []tau2Task, of func(tau2Task) int) (sum int, mid float64) {
	values := make([]float64, len(done))
	for i, t := range done {
		values[i] = float64(of(t))
		sum += of(t)
	}
	return sum, median(values)
}

// bySize shows where programs pay: the ratios by what a task needs.
func (x *tau2Bench) bySize(done []tau2Task) table {
	t := table{Title: "Tokens of programs, of those of calls, by what a task needs"}
	between := func(least, most int) func(tau2Task) bool {
		return func(d tau2Task) bool { return d.calls >= least && d.calls <= most }
	}
	for _, size := range []struct {
		what string
		is   func(tau2Task) bool
	}{
		{"1 call", between(1, 1)},
		{"2 or 3 calls", between(2, 3)},
		{"4 to 6 calls", between(4, 6)},
		{"7 to 9 calls", between(7, 9)},
		{"10 calls and more", between(10, 1<<30)},
		{"reads in front of writes", func(d tau2Task) bool { return d.looks }},
	} {
		group := slices.DeleteFunc(slices.Clone(done), func(d tau2Task) bool { return !size.is(d) })
		if len(group) == 0 {
			continue
		}
		var once, sent [ways]int
		for _, d := range group {
			for way, c := range d.cost {
				once[way], sent[way] = once[way]+c.once, sent[way]+c.sent
			}
		}
		for way := wayOne; way < ways; way++ {
			t.Rows = append(t.Rows, figure(fmt.Sprintf("%s, %d tasks: %s", size.what, len(group), wayNames[way]), roleOurs, "once %.2f x, sent %.2f x",
				float64(once[way])/float64(once[wayCalls]), float64(sent[way])/float64(sent[wayCalls])))
		}
	}
	more := func(way int, of func(cost) int) int {
		n, _ := overAll(done, func(t tau2Task) int {
			if of(t.cost[way]) > of(t.cost[wayCalls]) {
				return 1
			}
			return 0
		})
		return n
	}
	once, sent := func(c cost) int { return c.once }, func(c cost) int { return c.sent }
	refused, _ := overAll(done, func(t tau2Task) int { return min(t.refused, 1) })
	t.Notes = []string{
		"Where no read is in front of a write, looking and acting are one program, too.",
		fmt.Sprintf("Tasks in which programs need more tokens than calls: with one program %d counted once and %d as sent, with two %d and %d.", more(wayOne, once), more(wayOne, sent), more(wayTwo, once), more(wayTwo, sent)),
		fmt.Sprintf("In %d of %d tasks a tool refuses a call, which ends the program; the model writes the rest of it anew.", refused, len(done)),
		fmt.Sprintf("In %d of %d runs of the agent a turn and a program went to signatures that it had not shown its model.", x.asked, x.runs),
	}
	return t
}
