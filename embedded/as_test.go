package embedded_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
)

// member has all rights in a namespace.
func member(namespace string) agentkernel.Principal {
	return agentkernel.Principal{Name: "member of " + namespace, Namespace: namespace, Rights: agentkernel.Rights()}
}

// tenants opens a kernel.
func tenants(t *testing.T, home string) *embedded.Kernel {
	t.Helper()
	k, err := embedded.Open(t.Context(), embedded.Config{Home: home, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// hostedSpec is of a program that runs elsewhere, so that no engine is needed.
func hostedSpec(key string) agentkernel.Spec {
	return agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}, IdempotencyKey: key}
}

func spawnFor(t *testing.T, k agentkernel.Kernel, s agentkernel.Spec) agentkernel.PID {
	t.Helper()
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p.PID
}

// TestTenantsOfOneKernel: two principals share a kernel, and neither finds a trace of the other.
func TestTenantsOfOneKernel(t *testing.T) {
	home := t.TempDir()
	k := tenants(t, home)
	a, b := k.As(member("a")), k.As(member("b"))
	ofA, ofB := spawnFor(t, a, hostedSpec("key")), spawnFor(t, b, hostedSpec("key"))
	if ofA == ofB {
		t.Fatal("two namespaces share an idempotency key")
	}
	if again := spawnFor(t, a, hostedSpec("key")); again != ofA {
		t.Errorf("a key of the namespace made process %d, and had made %d", again, ofA)
	}
	c, err := a.(agentkernel.Hosted).Attach(t.Context(), ofA, agentkernel.Attaching{})
	if err != nil {
		t.Fatal(err)
	}
	set := agentkernel.HostedCall{Place: agentkernel.Place{N: 1}, Op: "state.set", Args: json.RawMessage(`{"key":"k","value":"secret of a"}`)}
	if _, err := c.Issue(set)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.(agentkernel.Hosted).Attach(t.Context(), ofA, agentkernel.Attaching{}); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("attaching to another's process: %v", err)
	}
	if state, err := b.State(t.Context(), ofA); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || state != nil {
		t.Errorf("state of another: %s, %v", state, err)
	}
	if state, err := a.State(t.Context(), ofA); err != nil || len(state) != 1 {
		t.Errorf("state of its own: %s, %v", state, err)
	}
	if _, err := a.PutDocument(t.Context(), agentkernel.Document{Name: "d.json", Data: json.RawMessage(`1`)}); err != nil {
		t.Error(err)
	}
	if d, err := b.Document(t.Context(), "a", "", "d.json"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a document of another: %+v, %v", d, err)
	}
	if d, err := b.Document(t.Context(), "", "", "d.json"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a document of another under the own namespace: %+v, %v", d, err)
	}
	for _, scoped := range []agentkernel.Kernel{a, b} {
		if list, err := scoped.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 1 {
			t.Errorf("list: %+v, %v", list, err)
		}
		if info, err := scoped.Info(t.Context()); err != nil || info.Processes != 1 || info.Home != "" {
			t.Errorf("info: %+v, %v", info, err)
		}
	}
	if all, err := k.List(t.Context(), agentkernel.Filter{}); err != nil || len(all) != 2 {
		t.Errorf("the owner sees %+v, %v", all, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil { // closing a scope has closed nothing
		t.Error(err)
	}

	k = tenants(t, home)
	defer k.Close()
	taken, err := k.As(member("a")).Recover(t.Context(), 0)
	if err != nil || len(taken) != 1 || taken[0].PID != ofA {
		t.Errorf("recovering all of a: %+v, %v", taken, err)
	}
	if p, err := k.Process(t.Context(), ofB); err != nil || p.State != agentkernel.StateUnfinished {
		t.Errorf("the process of b: %+v, %v", p, err)
	}
}

// TestAbilitiesBesideTheContract: what a kernel can do beyond agentkernel.Kernel is decided about
// here, one by one. A principal who is not the owner has Attach, narrowed, and nothing else.
func TestAbilitiesBesideTheContract(t *testing.T) {
	decided := map[string]bool{
		"Attach":  true,  // narrowed: agentkernel.Hosted
		"Allow":   false, // a setting of the kernel
		"Add":     false, // fills skills of any namespace into a Spec
		"As":      false, // the owner says who others are
		"Broken":  false, // of the kernel as a whole
		"Failure": false,
		"Reload":  false,
	}
	k := tenants(t, t.TempDir())
	defer k.Close()
	contract := reflect.TypeFor[agentkernel.Kernel]()
	scope := reflect.TypeOf(k.As(member("a")))
	var found []string
	for m := range reflect.TypeOf(k).Methods() {
		if _, part := contract.MethodByName(m.Name); part {
			continue
		}
		found = append(found, m.Name)
		if _, known := decided[m.Name]; !known {
			t.Errorf("%s: it is not decided whether principals have it", m.Name)
		}
	}
	for name, has := range decided {
		if !slices.Contains(found, name) {
			t.Errorf("the kernel has no %s", name)
		}
		if _, scoped := scope.MethodByName(name); scoped != has {
			t.Errorf("a principal has %s: %t", name, scoped)
		}
	}
	for m := range scope.Methods() {
		if _, part := contract.MethodByName(m.Name); !part && !decided[m.Name] {
			t.Errorf("a principal has %s, which is not decided", m.Name)
		}
	}
}
