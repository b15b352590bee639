package specs_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/store/storetest"
)

// The text of a Spec that is remembered is the one that would be made, whatever the Spec is and whatever came before it.
func TestTextsOfSpecs(t *testing.T) {
	for _, s := range []agentkernel.Spec{
		{},
		{Program: agentkernel.Program{Name: "a.py", Language: agentkernel.Python, Source: "1"}, Namespace: "default", Backend: "auto", Priority: 10},
	} {
		in := specs.New(agentkernel.DefaultLimits(), &room.Total{})
		fields, different := 0, map[string]bool{}
		compare := func(name string) {
			fields++
			for range 2 {
				got, want := string(in.Data(&s)), string(history.SpecData(&s))
				if got != want {
					t.Errorf("%s: %s\nwant %s", name, got, want)
				}
				different[want] = true
			}
		}
		compare("")
		storetest.EachField(&s, compare)
		if fields < 45 || len(different) < 40 {
			t.Errorf("%d fields were changed, with %d texts", fields, len(different))
		}
	}
}

// TestRoomForPrograms: what programs and their arguments take in the kernel's memory counts once for all that share them, until the last is
// gone, and none begins for which there is no room.
func TestRoomForPrograms(t *testing.T) {
	var total room.Total
	in := specs.New(agentkernel.DefaultLimits(), &total)
	small := &agentkernel.Spec{Program: agentkernel.Program{Source: "1"}}
	large := &agentkernel.Spec{Program: agentkernel.Program{Source: "1", Args: []string{strings.Repeat("x", 1<<20)}}}
	own := &agentkernel.Spec{Program: agentkernel.Program{Source: strings.Repeat(" ", 1<<20), Modules: map[string]string{"m": "1"}}}
	var taken []*specs.Shared
	for _, s := range []*agentkernel.Spec{small, large, large, own} {
		if err := in.Room(s); err != nil {
			t.Error(err)
		}
		taken = append(taken, in.Take(s, history.SpecData(s)))
	}
	for i, want := range []int64{6 << 20, 6 << 20, 6 << 20, 3 << 20} {
		if got := total.Held() / (3 << 20) * (3 << 20); got != want {
			t.Errorf("%d are gone, and %d bytes are held, want %d", i, total.Held(), want)
		}
		in.Drop(taken[i])
	}
	if total.Held() != 0 {
		t.Errorf("%d bytes are held for none", total.Held())
	}
	var others room.Share
	total.Set(&others, room.Most()-1<<20)
	if err := in.Room(large); agentkernel.CodeOf(err) != agentkernel.CodeLimit || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("there is room: %v", err)
	}
	if err := in.Room(small); err != nil {
		t.Error(err)
	}
}
