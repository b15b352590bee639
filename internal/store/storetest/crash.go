package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// childEnv names the directory in which a re-executed test binary plays the kernel that will be killed.
const childEnv = "AGENTKERNEL_STORETEST_CHILD"

// Main is the TestMain of a package that calls Exercise. In the child of a crash test it appends until it is
// killed instead of running tests.
func Main(m *testing.M, open Opener) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, appendForEver(dir, open)) // it returns only when something is wrong
	os.Exit(1)
}

const crashProcesses = 4

// appendForEver appends one entry after the other to a few journals, each batch with its place in the
// total order, and writes "pid seq" to stdout for every entry that Flush acknowledged.
func appendForEver(dir string, open Opener) error {
	s, err := open(dir)
	if err != nil {
		return err
	}
	total, next, err := resumePoint(s)
	if err != nil {
		return err
	}
	fmt.Println("open") // the parent's clock starts here
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for {
		pid := agentkernel.PID(1 + random.IntN(crashProcesses))
		total++
		e := entry(pid, next[pid])
		e.Data = fmt.Append(nil, total)
		if random.IntN(8) == 0 { // now and then a large one
			e.Args = json.RawMessage(`"` + strings.Repeat("x", 40_000) + `"`)
		}
		if random.IntN(2) == 0 {
			e.Effect, e.Args = agentkernel.EffectPaid, conversation(pid, e.Seq)
		}
		row := record(pid)
		row.Calls = e.Seq
		next[pid]++
		pos, err := s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{e}, Process: row,
			State: map[string]json.RawMessage{"seq": fmt.Append(nil, e.Seq)},
			Image: &agentkernel.Image{PID: pid, Seq: e.Seq, Fingerprint: "f", Bytes: fmt.Appendf(nil, "image at %d", e.Seq)}})
		if err != nil {
			return err
		}
		if random.IntN(3) != 0 {
			continue
		}
		if err := s.Flush(context.Background(), pos); err != nil {
			return err
		}
		fmt.Println(pid, e.Seq)
	}
}

// resumePoint gives the largest number in the total order and the next seq of each journal.
func resumePoint(s agentkernel.Store) (total int64, next map[agentkernel.PID]int64, err error) {
	next = map[agentkernel.PID]int64{}
	for pid := agentkernel.PID(1); pid <= crashProcesses; pid++ {
		list, err := s.Entries(context.Background(), pid, 1, 0)
		if err != nil {
			return 0, nil, err
		}
		next[pid] = int64(len(list)) + 1
		for _, e := range list {
			var n int64
			if err := json.Unmarshal(e.Data, &n); err != nil {
				return 0, nil, err
			}
			total = max(total, n)
		}
	}
	return total, next, nil
}

// crash kills a process that appends, again and again in the same directory, and looks at what is left.
func crash(t *testing.T, open Opener) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	acknowledged := map[agentkernel.PID]int64{}
	// On a machine that is busy with other things children may be killed before their first commit: then they get longer.
	for round := 0; round < rounds || len(acknowledged) == 0 && round < 10*rounds; round++ {
		killOne(t, self, dir, time.Duration(1+round/rounds*10)*60*time.Millisecond, acknowledged)
		s, err := open(dir)
		if err != nil {
			t.Fatalf("open after the crash: %v", err)
		}
		inspectAfterCrash(t, s, acknowledged)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acknowledged) == 0 {
		t.Fatal("no child acknowledged anything")
	}
}

// killOne runs a child, kills it at a random moment of its first `life` and collects what it acknowledged.
func killOne(t *testing.T, self, dir string, life time.Duration, acknowledged map[agentkernel.PID]int64) {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "open\n" {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("the child said %q, %v: %s (is Main called from TestMain?)", line, err, stderr.String())
	}
	killer := time.AfterFunc(rand.N(life), func() { cmd.Process.Kill() })
	defer killer.Stop()
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break // a line without its end was not acknowledged in full
		}
		var pid agentkernel.PID
		var seq int64
		if _, err := fmt.Sscan(line, &pid, &seq); err != nil {
			t.Fatalf("the child said %q: %v", line, err)
		}
		acknowledged[pid] = max(acknowledged[pid], seq)
	}
	if err := cmd.Wait(); stderr.Len() > 0 {
		t.Fatalf("the child failed before it was killed: %v: %s", err, stderr.String())
	}
}

// inspectAfterCrash checks that everything acknowledged is there, that what is there is a prefix of the
// total order, and that row, working set and image stand where the journal stands.
func inspectAfterCrash(t *testing.T, s agentkernel.Store, acknowledged map[agentkernel.PID]int64) {
	t.Helper()
	count, top := int64(0), int64(0)
	for pid := agentkernel.PID(1); pid <= crashProcesses; pid++ {
		list, err := s.Entries(t.Context(), pid, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range list {
			if e.Seq != int64(i+1) {
				t.Fatalf("process %d: entry %d stands at place %d", pid, e.Seq, i+1)
			}
			var n int64
			if err := json.Unmarshal(e.Data, &n); err != nil {
				t.Fatal(err)
			}
			top = max(top, n)
			if e.Effect == agentkernel.EffectPaid && string(e.Args) != string(conversation(pid, e.Seq)) {
				t.Fatalf("process %d: entry %d has another conversation", pid, e.Seq)
			}
		}
		count += int64(len(list))
		if last := int64(len(list)); last < acknowledged[pid] {
			t.Fatalf("process %d: entry %d was acknowledged, but the journal ends with %d", pid, acknowledged[pid], last)
		}
		if len(list) > 0 {
			standsAt(t, s, pid, int64(len(list)))
		}
	}
	if top != count {
		t.Fatalf("%d entries are there, but one of them was the %dth: not a prefix", count, top)
	}
}

func standsAt(t *testing.T, s agentkernel.Store, pid agentkernel.PID, seq int64) {
	t.Helper()
	p, err := s.Process(t.Context(), pid)
	if err != nil || p.Calls != seq {
		t.Fatalf("process %d: the row stands at %d, the journal at %d; error %v", pid, p.Calls, seq, err)
	}
	im, err := s.Image(t.Context(), pid)
	if err != nil || string(im.Bytes) != fmt.Sprintf("image at %d", seq) {
		t.Fatalf("process %d: image %q, the journal stands at %d; error %v", pid, im.Bytes, seq, err)
	}
	state, err := s.State(t.Context(), pid)
	if err != nil || string(state["seq"]) != fmt.Sprint(seq) {
		t.Fatalf("process %d: working set %s, the journal stands at %d; error %v", pid, state["seq"], seq, err)
	}
}
