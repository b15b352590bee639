package retention

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentkernel"
)

var cut = time.UnixMicro(1_000_000)

// family is a set of processes as a store may hold it: parents and pasts have smaller PIDs, or are not there any more.
func family(t *rapid.T) []agentkernel.Lineage {
	var all []agentkernel.Lineage
	for pid := agentkernel.PID(1); pid <= 12; pid++ {
		if rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
			continue
		}
		k := agentkernel.Lineage{PID: pid, Namespace: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "namespace"), State: agentkernel.StateExited}
		k.Parent = agentkernel.PID(rapid.IntRange(0, int(pid)-1).Draw(t, "parent"))
		if rapid.Bool().Draw(t, "rerun") {
			k.Parent = 0 // no rings: see plan.arrange
			k.Past = agentkernel.PID(rapid.IntRange(0, int(pid)-1).Draw(t, "past"))
		}
		switch rapid.IntRange(0, 4).Draw(t, "state") {
		case 0:
			k.State = agentkernel.StateUnfinished
		case 1:
			k.State, k.ExitCode, k.Ended = agentkernel.StateFailed, 1, cut.Add(-time.Second)
		case 2:
			k.Ended = cut // not before it
		default:
			k.Ended = cut.Add(-time.Second)
		}
		all = append(all, k)
	}
	return all
}

// remaining says by the rules of docs/housekeeping.md, applied until nothing changes, who stays.
func remaining(all []agentkernel.Lineage, o agentkernel.PruneOptions, named ...agentkernel.PID) map[agentkernel.PID]bool {
	stays := map[agentkernel.PID]bool{}
	above := map[agentkernel.PID]bool{} // keeps its parent, too
	for _, k := range all {
		old := k.State != agentkernel.StateUnfinished && k.Ended.Before(o.Before)
		if !old || o.Namespace != "" && k.Namespace != o.Namespace || o.KeepFailed && k.ExitCode != 0 || slices.Contains(named, k.PID) {
			stays[k.PID] = true
		}
		if k.State == agentkernel.StateUnfinished {
			above[k.PID] = true
		}
	}
	for changed := true; changed; {
		changed = false
		keep := func(pid agentkernel.PID, up bool) {
			if !slices.ContainsFunc(all, func(k agentkernel.Lineage) bool { return k.PID == pid }) {
				return
			}
			changed = changed || !stays[pid] || up && !above[pid]
			stays[pid] = true
			above[pid] = above[pid] || up
		}
		for _, k := range all {
			if stays[k.Parent] && k.Parent != 0 && !stays[k.PID] {
				keep(k.PID, false)
			}
			if stays[k.PID] && k.Past != 0 && !stays[k.Past] {
				keep(k.Past, false)
			}
			if above[k.PID] && k.Parent != 0 && !above[k.Parent] {
				keep(k.Parent, true)
			}
		}
	}
	return stays
}

func TestWhoMayBeForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := family(t)
		o := agentkernel.PruneOptions{Before: cut, KeepFailed: rapid.Bool().Draw(t, "keep failed"), Namespace: rapid.SampledFrom([]string{"", "a"}).Draw(t, "of")}
		p, which := new(plan), options{PruneOptions: o, now: cut}
		for _, k := range all {
			p.add(k, &which)
		}
		p.decide()
		taken := p.take(rapid.IntRange(0, 4).Draw(t, "first"))
		// Somebody begins a rerun of one that is still there.
		var named []agentkernel.PID
		if pid := agentkernel.PID(rapid.IntRange(1, 12).Draw(t, "named")); !slices.Contains(taken, pid) {
			named = append(named, pid)
			p.keepNamed(&agentkernel.Spec{Past: &agentkernel.Past{PID: pid}})
		}
		kept := p.kept
		later := p.take(len(all))
		if again := p.take(len(all)); len(again) > 0 {
			t.Fatalf("%v are taken twice", again)
		}
		before, after := remaining(all, o), remaining(all, o, named...)
		for _, pid := range taken {
			if after[pid] {
				t.Fatalf("%d was taken before %v, which needs it: %+v", pid, named, all)
			}
		}
		candidates := int64(0)
		for _, k := range all {
			if expired(&k, &which) {
				candidates++
			}
			switch {
			case slices.Contains(taken, k.PID) && before[k.PID]:
				t.Fatalf("%d was taken, and is needed: %+v", k.PID, all)
			case slices.Contains(later, k.PID) && after[k.PID]:
				t.Fatalf("%d was taken, and %v is named: %+v", k.PID, named, all)
			case slices.Contains(later, k.PID) && slices.Contains(taken, k.PID):
				t.Fatalf("%d is taken twice", k.PID)
			case !slices.Contains(taken, k.PID) && !slices.Contains(later, k.PID) && !after[k.PID]:
				t.Fatalf("%d was left, and nobody needs it: %+v", k.PID, all)
			}
		}
		if gone := int64(len(taken) + len(later)); gone+kept != candidates {
			t.Fatalf("%d are gone and %d kept, of %d", gone, kept, candidates)
		}
	})
}

// TestWhatAnAllowanceCounts: what has ended in a namespace with an allowance since its period began is not pruned: what it spent would be
// given back.
func TestWhatAnAllowanceCounts(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	all, err := agentkernel.ParseAllowances([]string{"a day usd 1", "a month calls 5", "b day usd 1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace, ended string
		goes             bool
	}{
		{"a", "2026-03-15T01:00:00Z", false},
		{"a", "2026-03-01T00:00:00Z", false},
		{"a", "2026-02-28T23:59:59Z", true},
		{"b", "2026-03-15T00:00:00Z", false},
		{"b", "2026-03-14T23:59:59Z", true},
		{"c", "2026-03-15T01:00:00Z", true},
	} {
		ended, err := time.Parse(time.RFC3339, c.ended)
		if err != nil {
			t.Fatal(err)
		}
		k := agentkernel.Lineage{PID: 1, Namespace: c.namespace, State: agentkernel.StateExited, Ended: ended}
		if goes := expired(&k, &options{PruneOptions: agentkernel.PruneOptions{Before: now}, allowances: all, now: now}); goes != c.goes {
			t.Errorf("%s, ended %s: goes %t", c.namespace, c.ended, goes)
		}
	}
}
