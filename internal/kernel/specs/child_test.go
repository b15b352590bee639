package specs_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/keys"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/specs"
)

// child is what Child makes; an error is none of what the test asks for.
func child(p *specs.Parent, a specs.Asked) agentkernel.Spec {
	s, err := specs.Child(p, 4, a)
	if err != nil {
		panic(err)
	}
	return s
}

func parent(lived time.Duration, change func(*agentkernel.Spec)) *specs.Parent {
	s := agentkernel.Spec{Namespace: "n", Priority: 5, Ancestors: []agentkernel.PID{1, 2}, Allow: []string{"a.*"}, AllowHosts: []string{"h"},
		Program: agentkernel.Program{Language: agentkernel.Python, Host: "/venv", Modules: map[string]string{"m": "1"}},
		Limits:  agentkernel.Limits{Calls: 10, Memory: 1 << 20}}
	if change != nil {
		change(&s)
	}
	return &specs.Parent{Shared: specs.New(agentkernel.DefaultLimits(), &room.Total{}).Own(&s), PID: 3, Lived: lived}
}

// TestChildHasNoMore: whatever it asks for, a child has no more than its parent, and it is found again by its key.
func TestChildHasNoMore(t *testing.T) {
	p := parent(0, nil)
	more := agentkernel.Limits{Calls: 99, Memory: 1 << 30}
	c := child(p, specs.Asked{Source: "1", Args: []string{"x"}, Priority: 1, Limits: &more})
	if c.Limits.Calls != 10 || c.Limits.Memory != 1<<20 || c.Priority != 5 {
		t.Errorf("it has more: %+v, priority %d", c.Limits, c.Priority)
	}
	if !slices.Equal(c.Ancestors, []agentkernel.PID{1, 2, 3}) || c.Parent != 3 || c.Namespace != "n" || c.IdempotencyKey != keys.OfChild(3, 4) {
		t.Errorf("it is elsewhere: %+v", c)
	}
	if !slices.Equal(c.Allow, []string{"a.*"}) || !slices.Equal(c.AllowHosts, []string{"h"}) {
		t.Errorf("it may: %v, %v", c.Allow, c.AllowHosts)
	}
	if c.Program.Name != "<spawned>" || c.Program.Source != "1" || c.Program.Host != "/venv" || c.Program.Modules["m"] != "1" {
		t.Errorf("it is: %+v", c.Program)
	}
	less := agentkernel.Limits{Calls: 3}
	c = child(p, specs.Asked{Name: "x", Priority: 9, Limits: &less})
	if c.Limits.Calls != 3 || c.Priority != 9 || c.Program.Name != "x" {
		t.Errorf("less than its parent: %+v, priority %d, %s", c.Limits, c.Priority, c.Program.Name)
	}
	slices.Reverse(c.Ancestors)
	if !slices.Equal(p.Ancestors, []agentkernel.PID{1, 2}) {
		t.Error("its ancestors are those of its parent")
	}
}

// TestChildHasWhatItsParentHas: each field of a Spec is the parent's, or one of those that a child does not have from it.
func TestChildHasWhatItsParentHas(t *testing.T) {
	own := map[string]bool{"Program": true, "Parent": true, "Ancestors": true, "IdempotencyKey": true, "Workspace": true, "Volumes": true,
		"Stdin": true, "Past": true, "Restart": true}
	p := parent(0, nil)
	fill(reflect.ValueOf(&p.Spec).Elem())
	p.InForce = p.Limits
	p.InForce.Wall, p.Limits.Wall = 0, 0
	c := child(p, specs.Asked{})
	if child(p, specs.Asked{Detached: true}).Interactive {
		t.Error("a child that is detached asks whoever follows its parent")
	}
	from, to := reflect.ValueOf(p.Spec), reflect.ValueOf(c)
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if !own[name] && !reflect.DeepEqual(from.Field(i).Interface(), to.Field(i).Interface()) {
			t.Errorf("%s: %v, its parent has %v", name, to.Field(i), from.Field(i))
		}
	}
}

// TestChildWithFolders: it sees those of its parent and publishes nothing: its changes wait for somebody, and volumes are applied by themselves.
func TestChildWithFolders(t *testing.T) {
	p := parent(0, func(s *agentkernel.Spec) {
		s.Workspace = &agentkernel.Workspace{Path: "/a", Publish: true}
		s.Volumes = []agentkernel.Volume{{Name: "v", Path: "/b", Size: 7}}
	})
	c := child(p, specs.Asked{Folder: true})
	if !reflect.DeepEqual(c.Workspace, &agentkernel.Workspace{Path: "/a"}) || !reflect.DeepEqual(c.Volumes, []agentkernel.Volume{{Name: "v", Path: "/b", ReadOnly: true}}) {
		t.Errorf("it sees %+v, %+v", c.Workspace, c.Volumes)
	}
	if !p.Workspace.Publish || p.Volumes[0].ReadOnly {
		t.Error("its parent has lost what it had")
	}
	if c = child(p, specs.Asked{}); c.HasFiles() {
		t.Errorf("one that asked for none sees %+v, %+v", c.Workspace, c.Volumes)
	}
	p = parent(0, func(s *agentkernel.Spec) { s.Workspace = &agentkernel.Workspace{Path: "/a", ReadOnly: true} })
	if c = child(p, specs.Asked{Folder: true}); !c.Workspace.ReadOnly {
		t.Error("it may change what its parent only reads")
	}
	if _, err := specs.Child(parent(0, nil), 4, specs.Asked{Folder: true}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("the folder of a parent that has none: %v", err)
	}
}

// fill gives fields that have no value one.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.String {
				f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			}
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		}
	}
}

// TestChildLivesNoLonger: the wall limit of a child is what its parent has left of its own.
func TestChildLivesNoLonger(t *testing.T) {
	hour := func(s *agentkernel.Spec) { s.Limits.Wall = agentkernel.Duration(time.Hour) }
	for lived, want := range map[time.Duration]time.Duration{0: time.Hour, 50 * time.Minute: 10 * time.Minute, 2 * time.Hour: time.Millisecond} {
		if got := child(parent(lived, hour), specs.Asked{}).Limits.Wall; time.Duration(got) != want {
			t.Errorf("its parent has lived for %v: %v, want %v", lived, got, want)
		}
	}
	if got := child(parent(time.Hour, nil), specs.Asked{}).Limits.Wall; got != 0 {
		t.Errorf("its parent has no limit: %v", got)
	}
}

// TestEnvironmentOfAChild: a virtual environment is for programs in Python.
func TestEnvironmentOfAChild(t *testing.T) {
	p := parent(0, func(s *agentkernel.Spec) { s.Program.Language = agentkernel.Node })
	if got := child(p, specs.Asked{}).Program.Host; got != "" {
		t.Errorf("a child of a program in another language has %q", got)
	}
}

// TestFromOutside: a caller chooses neither ancestors nor a child's key nor what a session was fed.
func TestFromOutside(t *testing.T) {
	s := agentkernel.Spec{Ancestors: []agentkernel.PID{9}}
	if err := specs.FromOutside(&s); err != nil || s.Ancestors != nil {
		t.Errorf("%v, %v", err, s.Ancestors)
	}
	for name, bad := range map[string]agentkernel.Spec{
		"a child's key":   {IdempotencyKey: keys.OfChild(1, 2)},
		"earlier cells":   {Program: agentkernel.Program{Earlier: []string{"1"}}},
		"a count of them": {Program: agentkernel.Program{Cells: 1}},
		"no isolation":    {Isolation: "strong"},
	} {
		if err := specs.FromOutside(&bad); err == nil {
			t.Errorf("%s is let through", name)
		}
	}
	child := agentkernel.Spec{Parent: 3, Isolation: agentkernel.IsolationNone}
	parent := agentkernel.Spec{Namespace: "a", Ancestors: []agentkernel.PID{1}, Isolation: agentkernel.IsolationKernel}
	if err := specs.PutBelow(&child, &parent); err != nil || !slices.Equal(child.Ancestors, []agentkernel.PID{1, 3}) || child.Isolation != agentkernel.IsolationKernel || child.Namespace != "a" {
		t.Errorf("below a parent: %v, %s, %s: %v", child.Ancestors, child.Isolation, child.Namespace, err)
	}
	if err := specs.PutBelow(&agentkernel.Spec{Parent: 3, Namespace: "b"}, &parent); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("below a parent of another namespace: %v", err)
	}
}

func TestComplete(t *testing.T) {
	s := agentkernel.Spec{Program: agentkernel.Program{Name: "x", Source: "1"}}
	if err := specs.Complete(&s); err != nil || s.Namespace != "default" || s.Priority != agentkernel.DefaultPriority || s.Program.Language != agentkernel.Python {
		t.Errorf("%v: %+v", err, s)
	}
	s = agentkernel.Spec{Program: agentkernel.Program{Name: "x", Source: "1", Language: "JS"}, Namespace: "n", Priority: 3}
	if err := specs.Complete(&s); err != nil || s.Namespace != "n" || s.Priority != 3 || s.Program.Language != agentkernel.Node {
		t.Errorf("%v: %+v", err, s)
	}
	if err := specs.Complete(&agentkernel.Spec{Program: agentkernel.Program{Source: "1", Language: "cobol"}}); err == nil {
		t.Error("a Spec that is none is completed")
	}
}

// TestOfHosted: a hosted program has no sandbox; what it would need one for is refused, and not left out silently.
func TestOfHosted(t *testing.T) {
	for _, c := range []struct {
		spec agentkernel.Spec
		says string // "": it is taken
	}{
		{agentkernel.Spec{}, ""},
		{agentkernel.Spec{Isolation: agentkernel.IsolationNone}, ""},
		{agentkernel.Spec{Isolation: agentkernel.IsolationKernel}, "isolation"},
		{agentkernel.Spec{Program: agentkernel.Program{Session: true}}, "session"},
		{agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: "/w"}}, "files"},
		{agentkernel.Spec{Volumes: []agentkernel.Volume{{Name: "v", Path: "/v"}}}, "files"},
		{agentkernel.Spec{Stdin: "/in"}, "standard input"},
		{agentkernel.Spec{Past: &agentkernel.Past{PID: 1}}, "again"},
	} {
		err := specs.OfHosted(&c.spec)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.says)
		}
	}
}

// TestChildOfHosted: what a hosted program spawns is a text, and nobody would be the host of it.
func TestChildOfHosted(t *testing.T) {
	for backend, want := range map[string]string{specs.Hosted: "", "monty": "monty"} {
		parent := &specs.Parent{Shared: &specs.Shared{Spec: agentkernel.Spec{Backend: backend}}, PID: 2}
		if s := child(parent, specs.Asked{Source: "1"}); s.Backend != want {
			t.Errorf("a child of one on %q is on %q, not on %q", backend, s.Backend, want)
		}
	}
}

// TestMoneyIsBoundedBelow: a child knows whether a budget above it bounds money, whoever started it; nobody else can say so.
func TestMoneyIsBoundedBelow(t *testing.T) {
	for _, c := range []struct {
		parent agentkernel.Spec
		want   bool
	}{{agentkernel.Spec{}, false}, {agentkernel.Spec{Budget: agentkernel.Budget{Calls: 1}}, false}, {agentkernel.Spec{Budget: agentkernel.Budget{USD: 1}}, true},
		{agentkernel.Spec{Budget: agentkernel.Budget{Calls: 1}, Budgets: []agentkernel.PID{1}, BudgetsUSD: true}, true}} {
		hosted := agentkernel.Spec{Parent: 2, BudgetsUSD: !c.want}
		if err := specs.PutBelow(&hosted, &c.parent); err != nil {
			t.Error(err)
		}
		spawned := child(&specs.Parent{Shared: &specs.Shared{Spec: c.parent}, PID: 2}, specs.Asked{})
		if hosted.BoundsUSD() != c.want || spawned.BoundsUSD() != c.want {
			t.Errorf("below %+v: %v and %v", c.parent.Budget, hosted.BoundsUSD(), spawned.BoundsUSD())
		}
	}
	outside := agentkernel.Spec{BudgetsUSD: true}
	if err := specs.FromOutside(&outside); err != nil || outside.BudgetsUSD {
		t.Errorf("who sends a Spec fills it in: %v", err)
	}
}
