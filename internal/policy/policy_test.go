package policy_test

import (
	"context"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/policy"
)

// What a call comes to. Everything else in the table is a code.
const (
	ok    = ""        // it reaches the kernel
	empty = "nothing" // no error, nothing found, and the kernel was not asked
)

// Codes of the table.
const (
	gone   = string(agentkernel.CodeNotFound)
	denied = string(agentkernel.CodeDenied)
)

// principals are those of the table, in its order.
var principals = []struct {
	name string
	who  agentkernel.Principal
}{
	{"owner", agentkernel.Owner()},
	{"member", agentkernel.Principal{Namespace: team, Rights: agentkernel.Rights()}},
	{"stranger", agentkernel.Principal{Namespace: others, Rights: agentkernel.Rights()}},
	{"reader", agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{agentkernel.RightRead}}},
	{"nobody", agentkernel.Principal{Namespace: team}},
	{"zero", agentkernel.Principal{}},
	{"invalid", agentkernel.Principal{Namespace: "$team", Rights: agentkernel.Rights()}},
}

// calls has every method of the contract, about process ofTeam or the namespace team, and what it
// comes to for owner, member, stranger, reader. Who has no rights is always refused.
var calls = map[string]struct {
	call func(ctx context.Context, k agentkernel.Kernel) (any, error)
	want [4]string
}{
	"Spawn": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Spawn(ctx, agentkernel.Spec{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"SpawnMany": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SpawnMany(ctx, agentkernel.Spec{Namespace: team}, nil)
	}, [4]string{ok, ok, denied, denied}},
	"Run": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Run(ctx, agentkernel.Spec{Namespace: team}, nil)
	}, [4]string{ok, ok, denied, denied}},
	"Process": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Process(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"List": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.List(ctx, agentkernel.Filter{Namespace: team})
	}, [4]string{ok, ok, empty, ok}},
	"Count": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Count(ctx, agentkernel.Filter{Namespace: team})
	}, [4]string{ok, ok, empty, ok}},
	"Wait": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Wait(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"Signal": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Signal(ctx, ofTeam, agentkernel.SignalKill)
	}, [4]string{ok, ok, gone, denied}},
	"Budget":     {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Budget(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"Allowances": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Allowances(ctx, team) }, [4]string{ok, ok, empty, ok}},
	"ModelUsage": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		u, err := k.ModelUsage(ctx, agentkernel.UsageQuery{Namespace: team})
		return u.Rows, err
	}, [4]string{ok, ok, empty, ok}},
	"ModelLimits": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.ModelLimits(ctx) }, [4]string{ok, denied, denied, denied}},
	"GiveKey": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.GiveKey(ctx, ofTeam, "fast", "sk-made-up")
	}, [4]string{ok, ok, gone, denied}},
	"AddBudget": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.AddBudget(ctx, ofTeam, agentkernel.Budget{Calls: 1})
	}, [4]string{ok, ok, gone, denied}},
	"Halt": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Halt(ctx, agentkernel.Hold{Tree: ofTeam})
	}, [4]string{ok, ok, gone, denied}},
	"Thaw": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Thaw(ctx, agentkernel.Hold{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"Answer": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Answer(ctx, ofTeam, 1, agentkernel.AnswerYes)
	}, [4]string{ok, ok, gone, denied}},
	"Recover": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Recover(ctx, ofTeam) }, [4]string{ok, ok, gone, denied}},
	"Events": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Events(ctx, ofTeam, 1, true, nil)
	}, [4]string{ok, ok, gone, ok}},
	"Journal": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Journal(ctx, ofTeam, 1, 0) }, [4]string{ok, ok, gone, ok}},
	"Spec":    {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Spec(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"State":   {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.State(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"Resolve": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Resolve(ctx, ofTeam, 1, agentkernel.Resolution{Decision: agentkernel.DecisionRetry})
	}, [4]string{ok, ok, gone, denied}},
	"Export": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Export(ctx, ofTeam, agentkernel.ExportOptions{})
	}, [4]string{ok, ok, gone, ok}},
	"Import": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Import(ctx, []byte(recording), agentkernel.ImportOptions{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"Replay": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { // of no namespace, and stored nowhere
		return k.Replay(ctx, []byte(recording), agentkernel.ReplayOptions{})
	}, [4]string{ok, ok, ok, denied}},
	"ToolServers": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.ToolServers(ctx, nil) }, [4]string{ok, ok, ok, denied}},
	"ListTools":   {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.ListTools(ctx, nil, "") }, [4]string{ok, ok, ok, denied}},
	"SearchTools": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SearchTools(ctx, nil, agentkernel.ToolQuery{})
	}, [4]string{ok, ok, ok, denied}},
	"AcceptTools": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.AcceptTools(ctx, nil, "s", nil) }, [4]string{ok, ok, ok, denied}},
	"SaveSkill": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SaveSkill(ctx, agentkernel.Skill{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"Skill": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Skill(ctx, team, "s", 0) }, [4]string{ok, ok, gone, ok}},
	"Skills": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Skills(ctx, agentkernel.SkillQuery{Namespace: team})
	}, [4]string{ok, ok, empty, ok}},
	"DeleteSkill": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.DeleteSkill(ctx, team, "s")
	}, [4]string{ok, ok, denied, denied}},
	"Document": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Document(ctx, team, "", "d") }, [4]string{ok, ok, gone, ok}},
	"PutDocument": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.PutDocument(ctx, agentkernel.Document{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"Feed": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Feed(ctx, ofTeam, agentkernel.Cell{}, nil)
	}, [4]string{ok, ok, gone, denied}},
	"EndSession": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.EndSession(ctx, ofTeam) }, [4]string{ok, ok, gone, denied}},
	"Changes":    {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Changes(ctx, ofTeam) }, [4]string{ok, ok, gone, ok}},
	"Apply": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Apply(ctx, ofTeam, agentkernel.ApplyOptions{})
	}, [4]string{ok, ok, gone, denied}},
	"Discard": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return nil, k.Discard(ctx, ofTeam) }, [4]string{ok, ok, gone, denied}},
	"OpenFile": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.OpenFile(ctx, ofTeam, agentkernel.FileName{})
	}, [4]string{ok, ok, gone, ok}},
	"Backup": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return nil, k.Backup(ctx, io.Discard) }, [4]string{ok, denied, denied, denied}},
	"Prune": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Prune(ctx, agentkernel.PruneOptions{Namespace: team})
	}, [4]string{ok, ok, denied, denied}},
	"Storage": {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Storage(ctx) }, [4]string{ok, denied, denied, denied}},
	"Info":    {func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Info(ctx) }, [4]string{ok, ok, ok, ok}},
	"Close":   {func(_ context.Context, k agentkernel.Kernel) (any, error) { return nil, k.Close() }, [4]string{ok, empty, empty, empty}},
	"Attach": {func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.(agentkernel.Hosted).Attach(ctx, ofTeam, agentkernel.Attaching{})
	}, [4]string{ok, ok, gone, denied}},
}

// TestEveryMethodOfTheContract: a method that is added to the contract has no row, and fails until
// it is decided what each principal may do with it.
func TestEveryMethodOfTheContract(t *testing.T) {
	var methods []string
	for _, contract := range []reflect.Type{reflect.TypeFor[agentkernel.Kernel](), reflect.TypeFor[agentkernel.Hosted]()} {
		for i := range contract.NumMethod() {
			methods = append(methods, contract.Method(i).Name)
		}
	}
	for name := range calls {
		if !slices.Contains(methods, name) {
			t.Errorf("the contract has no method %s", name)
		}
	}
	for _, name := range methods {
		c, decided := calls[name]
		if !decided {
			t.Errorf("%s: it is not decided what principals may do with it: add it to the table", name)
			continue
		}
		for i, p := range principals {
			want := denied
			switch {
			case i < len(c.want):
				want = c.want[i]
			case name == "Close":
				want = empty
			case p.name == "invalid":
				want = string(agentkernel.CodeInvalid)
			}
			t.Run(name+"/"+p.name, func(t *testing.T) {
				d := newDouble()
				found, err := c.call(t.Context(), policy.Scoped(hosting{d}, p.who))
				reached := slices.Contains(d.reached, name)
				switch {
				case want == ok && (err != nil || !reached):
					t.Errorf("reached %q, %v; want it to reach the kernel", d.reached, err)
				case want == empty && (err != nil || reached || !isEmpty(found)):
					t.Errorf("%v, reached %q, %v; want nothing", found, d.reached, err)
				case want != ok && want != empty && string(agentkernel.CodeOf(err)) != want:
					t.Errorf("%v, want %s", err, want)
				case want == denied && len(d.reached) > 0:
					t.Errorf("the kernel was asked before the refusal: %q", d.reached)
				case want == gone && reached && name != "Process" && name != "Spec": // those are how it is found out
					t.Errorf("it reached the kernel")
				case found != nil && err != nil && !reflect.ValueOf(found).IsZero():
					t.Errorf("the refusal says %+v", found)
				}
			})
		}
	}
}

// TestANamespaceIsFilledIn: a call that names no namespace is about the principal's own, not about
// all or "default".
func TestANamespaceIsFilledIn(t *testing.T) {
	for name, call := range map[string]func(k agentkernel.Kernel) error{
		"Spawn": func(k agentkernel.Kernel) error {
			_, err := k.Spawn(t.Context(), agentkernel.Spec{IdempotencyKey: "k"})
			return err
		},
		"Run": func(k agentkernel.Kernel) error { _, err := k.Run(t.Context(), agentkernel.Spec{}, nil); return err },
		"List": func(k agentkernel.Kernel) error {
			_, err := k.List(t.Context(), agentkernel.Filter{Key: "k"})
			return err
		},
		"Import": func(k agentkernel.Kernel) error {
			_, err := k.Import(t.Context(), nil, agentkernel.ImportOptions{})
			return err
		},
		"Prune": func(k agentkernel.Kernel) error {
			_, err := k.Prune(t.Context(), agentkernel.PruneOptions{})
			return err
		},
		"SaveSkill": func(k agentkernel.Kernel) error {
			_, err := k.SaveSkill(t.Context(), agentkernel.Skill{})
			return err
		},
		"Skill": func(k agentkernel.Kernel) error { _, err := k.Skill(t.Context(), "", "s", 0); return err },
		"Skills": func(k agentkernel.Kernel) error {
			_, err := k.Skills(t.Context(), agentkernel.SkillQuery{})
			return err
		},
		"DeleteSkill": func(k agentkernel.Kernel) error { return k.DeleteSkill(t.Context(), "", "s") },
		"Document":    func(k agentkernel.Kernel) error { _, err := k.Document(t.Context(), "", "", "d"); return err },
		"PutDocument": func(k agentkernel.Kernel) error {
			_, err := k.PutDocument(t.Context(), agentkernel.Document{})
			return err
		},
	} {
		for namespace, want := range map[string]string{team: team, "": "default"} {
			d := newDouble()
			if err := call(policy.Scoped(d, agentkernel.Principal{Namespace: namespace, Rights: agentkernel.Rights()})); err != nil || d.space != want {
				t.Errorf("%s of a principal of %q: namespace %q, %v", name, namespace, d.space, err)
			}
		}
	}
}

// TestWhatAProcessMayDoNeedsTheRight: nobody gives a process, or gets by feeding one, more than he
// has.
func TestWhatAProcessMayDoNeedsTheRight(t *testing.T) {
	for name, c := range map[string]struct {
		spec  agentkernel.Spec
		right agentkernel.Right
	}{
		"plain":       {agentkernel.Spec{}, agentkernel.RightRun},
		"tools":       {agentkernel.Spec{Tools: []string{"/t.json"}}, agentkernel.RightTools},
		"allow":       {agentkernel.Spec{Allow: []string{"*"}}, agentkernel.RightTools},
		"hosts":       {agentkernel.Spec{AllowHosts: []string{"example.com"}}, agentkernel.RightTools},
		"workspace":   {agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: "/w"}}, agentkernel.RightHost},
		"volume":      {agentkernel.Spec{Volumes: []agentkernel.Volume{{Name: "v", Path: "/v"}}}, agentkernel.RightHost},
		"stdin":       {agentkernel.Spec{Stdin: "/etc/passwd"}, agentkernel.RightHost},
		"environment": {agentkernel.Spec{Program: agentkernel.Program{Host: "/venv"}}, agentkernel.RightHost},
		"no walls":    {agentkernel.Spec{Isolation: agentkernel.IsolationNone}, agentkernel.RightHost},
		"asks":        {agentkernel.Spec{Interactive: true}, agentkernel.RightAnswer},
	} {
		enough := []agentkernel.Right{agentkernel.RightRead, agentkernel.RightRun, c.right}
		lacking := slices.DeleteFunc(agentkernel.Rights(), func(r agentkernel.Right) bool { return r == c.right })
		for _, rights := range [][]agentkernel.Right{enough, lacking} {
			d := newDouble()
			session := c.spec
			session.Namespace = team
			d.specs[ofTeam] = session
			k := policy.Scoped(hosting{d}, agentkernel.Principal{Namespace: team, Rights: rights})
			want := agentkernel.CodeOf(nil)
			if !slices.Contains(rights, c.right) {
				want = agentkernel.CodeDenied
			}
			_, spawned := k.Spawn(t.Context(), c.spec)
			_, ran := k.Run(t.Context(), c.spec, nil)
			_, fed := k.Feed(t.Context(), ofTeam, agentkernel.Cell{}, nil)
			_, held := k.(agentkernel.Hosted).Attach(t.Context(), ofTeam, agentkernel.Attaching{})
			for what, err := range map[string]error{"spawn": spawned, "run": ran, "feed": fed, "attach": held} {
				if agentkernel.CodeOf(err) != want {
					t.Errorf("%s %s with the rights %q: %v, want %q", what, name, rights, err, want)
				}
			}
		}
	}
}

// TestNoTieToAnotherNamespace: a parent, a past or an ancestor of another namespace is not there.
func TestNoTieToAnotherNamespace(t *testing.T) {
	for pid, want := range map[agentkernel.PID]agentkernel.Code{ofTeam: "", ofOthers: agentkernel.CodeNotFound, ofNobody: agentkernel.CodeNotFound} {
		for name, spec := range map[string]agentkernel.Spec{
			"parent":   {Parent: pid},
			"past":     {Past: &agentkernel.Past{PID: pid}},
			"ancestor": {Ancestors: []agentkernel.PID{pid}},
		} {
			k := policy.Scoped(newDouble(), agentkernel.Principal{Namespace: team, Rights: agentkernel.Rights()})
			_, spawned := k.Spawn(t.Context(), spec)
			_, ran := k.Run(t.Context(), spec, nil)
			if agentkernel.CodeOf(spawned) != want || agentkernel.CodeOf(ran) != want {
				t.Errorf("%s %d: %v, %v", name, pid, spawned, ran)
			}
		}
	}
}

// TestNoWallsAreNotInherited: a child has the isolation of its parent where it asks for none.
func TestNoWallsAreNotInherited(t *testing.T) {
	d := newDouble()
	d.specs[ofTeam] = agentkernel.Spec{Namespace: team, Isolation: agentkernel.IsolationNone}
	runs := agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{agentkernel.RightRun}}
	if _, err := policy.Scoped(d, runs).Spawn(t.Context(), agentkernel.Spec{Parent: ofTeam}); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("below one without walls: %v", err)
	}
	if _, err := policy.Scoped(d, runs).Spawn(t.Context(), agentkernel.Spec{Parent: ofTeam, Isolation: agentkernel.IsolationProcess}); err != nil {
		t.Errorf("with walls below it: %v", err)
	}
}

// TestWhoMayNotAnswerIsNotAsked: whoever follows an interactive process is asked, and one that was
// paused for want of somebody to answer goes on for him.
func TestWhoMayNotAnswerIsNotAsked(t *testing.T) {
	d := newDouble()
	d.specs[ofTeam] = agentkernel.Spec{Namespace: team, Interactive: true}
	without := policy.Scoped(d, agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{agentkernel.RightRead, agentkernel.RightRun}})
	if err := without.Events(t.Context(), ofTeam, 1, true, nil); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("following: %v", err)
	}
	if err := without.Events(t.Context(), ofTeam, 1, false, nil); err != nil {
		t.Errorf("reading: %v", err)
	}
	// The key names it already: Run would follow it.
	if _, err := without.Run(t.Context(), agentkernel.Spec{IdempotencyKey: "k"}, nil); agentkernel.CodeOf(err) != agentkernel.CodeDenied || slices.Contains(d.reached, "Run") {
		t.Errorf("running what asks: %v", err)
	}
	with := policy.Scoped(d, agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{agentkernel.RightRead, agentkernel.RightAnswer}})
	if err := with.Events(t.Context(), ofTeam, 1, true, nil); err != nil {
		t.Errorf("following with the right to answer: %v", err)
	}
}

// TestNothingSaysThatAnotherIsThere: a process of another namespace, one that was pruned and one
// that never was are told alike.
func TestNothingSaysThatAnotherIsThere(t *testing.T) {
	k := policy.Scoped(newDouble(), agentkernel.Principal{Namespace: team, Rights: agentkernel.Rights()})
	text := func(pid agentkernel.PID) string {
		_, err := k.Process(t.Context(), pid)
		e := agentkernel.AsError(err, "", "")
		return string(e.Code) + e.Op + e.Message()[:len(e.Message())-1] + e.Hint // without the PID
	}
	if a, b := text(ofOthers), text(ofNobody); a != b {
		t.Errorf("%q and %q differ", a, b)
	}
}

// TestCountsAreOfTheNamespace: what Info, Prune and Recover tell is about the principal's own.
func TestCountsAreOfTheNamespace(t *testing.T) {
	d := newDouble()
	k := policy.Scoped(d, agentkernel.Principal{Namespace: team, Rights: agentkernel.Rights()})
	info, err := k.Info(t.Context())
	want := agentkernel.KernelInfo{Version: "1", API: 1, Mode: "serve", Unfinished: 1, Store: agentkernel.StoreInfo{UUID: "u", Schema: 3},
		Backends: []agentkernel.BackendInfo{{Name: "b", Available: true}}}
	if diff := cmp.Diff(want, info); err != nil || diff != "" {
		t.Errorf("info: %v\n%s", err, diff)
	}
	pruned, err := k.Prune(t.Context(), agentkernel.PruneOptions{})
	if diff := cmp.Diff(agentkernel.Pruned{Removed: agentkernel.Removed{Processes: 3}, Kept: 2}, pruned); err != nil || diff != "" {
		t.Errorf("prune: %v\n%s", err, diff)
	}
	d.reached = nil
	taken, err := k.Recover(t.Context(), 0)
	if err != nil || len(taken) != 1 || taken[0].PID != ofTeam {
		t.Errorf("recover: %+v, %v", taken, err)
	}
	all, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil || len(all) != 1 || all[0].PID != ofTeam {
		t.Errorf("list: %+v, %v", all, err)
	}
}

// TestTheOwnerHasTheKernelItself, with every ability that it has; a scope inside a scope has what
// both allow.
func TestTheOwnerHasTheKernelItself(t *testing.T) {
	d := newDouble()
	if policy.Scoped(d, agentkernel.Owner()) != agentkernel.Kernel(d) {
		t.Error("the owner has another kernel")
	}
	inner := policy.Scoped(d, agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{agentkernel.RightRead}})
	if policy.Scoped(inner, agentkernel.Owner()) != inner {
		t.Error("an owner sees beyond a scope")
	}
	if _, err := policy.Scoped(inner, agentkernel.Principal{Namespace: others, Rights: agentkernel.Rights()}).Process(t.Context(), ofOthers); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a scope sees beyond a scope: %v", err)
	}
	if _, hosts := policy.Scoped(d, agentkernel.Principal{}).(agentkernel.Hosted); hosts {
		t.Error("a kernel that hosts nothing seems to")
	}
	if err := policy.Scoped(d, agentkernel.Principal{Namespace: team}).Close(); err != nil || d.closed {
		t.Errorf("a principal closed the kernel: %v", err)
	}
}

// TestEachRightAlone: what somebody may do in his namespace who has one right. Run is not there: it
// needs the right to run and the right to read. Feed does, too.
func TestEachRightAlone(t *testing.T) {
	always := []string{"Close"}
	for right, want := range map[agentkernel.Right][]string{
		agentkernel.RightRead: {"Allowances", "Budget", "Changes", "Count", "Document", "Events", "Export", "Info", "Journal", "List", "ModelUsage", "OpenFile", "Process", "Skill", "Skills",
			"Spec", "State", "Wait"},
		agentkernel.RightRun:    {"Attach", "DeleteSkill", "EndSession", "PutDocument", "Recover", "Replay", "SaveSkill", "Spawn", "SpawnMany"},
		agentkernel.RightAnswer: {"AddBudget", "Answer", "Halt", "Resolve", "Signal"},
		agentkernel.RightTools:  {"AcceptTools", "GiveKey", "ListTools", "SearchTools", "ToolServers"},
		agentkernel.RightHost:   {"Apply", "Discard"},
		agentkernel.RightAdmin:  {"Import", "Prune", "Thaw"},
	} {
		var may []string
		k := policy.Scoped(hosting{newDouble()}, agentkernel.Principal{Namespace: team, Rights: []agentkernel.Right{right}})
		for name, c := range calls {
			if _, err := c.call(t.Context(), k); err == nil && !slices.Contains(always, name) {
				may = append(may, name)
			}
		}
		slices.Sort(may)
		if diff := cmp.Diff(want, may); diff != "" {
			t.Errorf("with the right %q alone:\n%s", right, diff)
		}
		if _, err := k.Recover(t.Context(), 0); (err == nil) != (right == agentkernel.RightRun) {
			t.Errorf("recovering all with the right %q alone: %v", right, err)
		}
	}
}

// isEmpty says that an answer tells of nothing.
func isEmpty(answer any) bool {
	v := reflect.ValueOf(answer)
	return !v.IsValid() || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// TestHoldsAreOfTheNamespace: what stands still elsewhere is not told, and no namespace uses up the holds that all have.
func TestHoldsAreOfTheNamespace(t *testing.T) {
	d := newDouble()
	d.holds = []agentkernel.Hold{{Why: "secret"}, {Namespace: others, Why: "secret"}, {Namespace: team, Why: "ours"}, {Tree: ofOthers, Why: "secret"}, {Tree: ofTeam, Why: "ours"}}
	k := policy.Scoped(d, agentkernel.Principal{Namespace: team, Rights: agentkernel.Rights()})
	info, err := k.Info(t.Context())
	if want := []agentkernel.Hold{{}, {Namespace: team, Why: "ours"}, {Tree: ofTeam, Why: "ours"}}; err != nil || !cmp.Equal(info.Holds, want) {
		t.Errorf("%+v, %v", info.Holds, err)
	}
	for _, pid := range []agentkernel.PID{ofOthers, ofTeam} {
		d.holds = nil
		for range 100 {
			d.holds = append(d.holds, agentkernel.Hold{Tree: pid})
		}
		if err := k.Halt(t.Context(), agentkernel.Hold{Tree: ofTeam}); (agentkernel.CodeOf(err) == agentkernel.CodeLimit) != (pid == ofTeam) {
			t.Errorf("100 holds over %d: %v", pid, err)
		}
	}
}
