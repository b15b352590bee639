package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

var killedSection = section{
	name: "killed", title: "A kernel that is killed with 10,000 processes under way",
	about: "Each process is in the middle of a loop that sets a key of its state and sleeps for half a second, so that all the time some wake, run and are parked. `agentkernel serve` is killed " +
		"(SIGKILL) and started again. Measured from that start until the next call of each process is durable, as a reader of the database sees it, every 100 ms: the next lap, or the sleep of one that was killed before it. Then the journals are read: each has to have " +
		"every lap once, in order. Floor: the same number of context switches on two bare Monty workers.",
	run: measureKilled,
}

const lapper = `from kernel import sleep, state
for lap in range(1000000):
    state.set("lap", lap)
    sleep(0.5)
`

// killedGoal is the time until every process goes on.
const killedGoal = 2 * time.Second

func measureKilled(ctx context.Context, b *bench) ([]table, error) {
	n := b.pick(10_000, 2_000, 50)
	home, err := b.dir()
	if err != nil {
		return nil, err
	}
	s := &server{b: b, home: home}
	defer s.kill()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	pids, err := s.spawn(ctx, n)
	if err != nil {
		return nil, err
	}
	if _, err := s.await(ctx, pids, standing{}, 2); err != nil { // at least the third lap of each
		return nil, err
	}
	b.tell("all are in the middle of their loops")
	s.kill()
	were, err := standingOf(ctx, home, pids)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	ready := time.Since(began)
	half, err := s.await(ctx, pids, were, 1)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	b.tell("all go on after %s, half of them %s earlier", span(took), span(took-half.Sub(began)))
	if err := s.stop(); err != nil {
		return nil, err
	}
	if err := checkLaps(ctx, home, pids); err != nil {
		return nil, err
	}
	floor, err := b.switchFloor(n)
	if err != nil {
		return nil, err
	}
	next := figure("until the next call of each is durable", roleOurs, "%s", span(took))
	if b.scale == full {
		next.judge("at most "+span(killedGoal), took <= killedGoal)
	}
	return []table{{Title: fmt.Sprintf("%d processes", n), Rows: []row{
		figure("as many context switches on two bare workers", roleFloor, "%s", span(floor)),
		figure("`agentkernel serve` started, until it answers", roleOurs, "%s", span(ready)),
		figure("until the next call of half of them is durable", roleOurs, "%s", span(half.Sub(began))),
		next,
		figure("processes lost, laps lost, laps twice", roleOurs, "0, 0, 0"),
	}}}, nil
}

// server is `agentkernel serve` on a data directory.
type server struct {
	b    *bench
	home string
	cmd  *exec.Cmd
	errs bytes.Buffer
}

// start returns when the kernel answers.
func (s *server) start(ctx context.Context) error {
	s.errs.Reset()
	s.cmd = exec.CommandContext(ctx, s.b.cli, "serve")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.home, io.Discard, &s.errs
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "AGENTKERNEL_HOME=" + filepath.Join(s.home, "k"), "AGENTKERNEL_ENGINE=" + s.b.engine}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := s.dial(ctx)
		if err == nil {
			_, err = c.Info(ctx)
			if err = errors.Join(err, c.Close()); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("serve does not answer: %w: %s", err, s.errs.String())
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *server) dial(ctx context.Context) (*client.Client, error) {
	dir, err := datadir.Open(filepath.Join(s.home, "k"))
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, client.Options{Socket: dir.Socket(), AnyVersion: true})
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the kernel as a loss of power would.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

// stop ends the kernel in order.
func (s *server) stop() error {
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 143 {
		return fmt.Errorf("serve: %w: %s", err, s.errs.String())
	}
	return nil
}

func (s *server) spawn(ctx context.Context, n int) (pids []agentkernel.PID, err error) {
	k, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return spawnInBulk(ctx, k, python("lapper.py", lapper), n)
}

// standing is where processes were when their kernel was killed.
type standing struct {
	laps    map[agentkernel.PID]int
	between map[agentkernel.PID]int64 // the seq of their last call, if it set a lap: the next is to sleep, and then there is no lap before half a second
}

// await waits until each process is so many laps further than it was, or sleeps where it was about to, and says when half of them were.
func (s *server) await(ctx context.Context, pids []agentkernel.PID, were standing, further int) (half time.Time, err error) {
	q, _, err := embedded.OpenQuery(ctx, filepath.Join(s.home, "k")) // once: what is measured has no processor for much else
	if err != nil {
		return half, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	journals, err := openReader(ctx, filepath.Join(s.home, "k"))
	if err != nil {
		return half, err
	}
	defer func() { err = errors.Join(err, journals.Close()) }()
	least := 0 // laps that there are when half of them are so far
	for _, lap := range were.laps {
		least += lap
	}
	least += len(pids) / 2 * further
	deadline := time.Now().Add(5 * time.Minute)
	for {
		there := 0
		enough, err := lapsAtLeast(ctx, q, least)
		if err != nil {
			return half, err
		}
		var laps map[agentkernel.PID]int
		if enough {
			if laps, err = lapsIn(ctx, q); err != nil {
				return half, err
			}
		}
		for _, pid := range pids {
			lap, begun := laps[pid]
			was, before := were.laps[pid]
			last, sleeps := were.between[pid]
			switch {
			case begun && (!before && lap >= further || before && lap >= was+further):
				there++
			case begun && sleeps:
				op, err := lastCall(ctx, journals, pid, last+1)
				if err != nil {
					return half, err
				}
				if op.Seq > last {
					there++
				}
			}
		}
		if half.IsZero() && there >= len(pids)/2 {
			half = time.Now()
		}
		if there == len(pids) {
			return half, nil
		}
		if time.Now().After(deadline) {
			return half, fmt.Errorf("%d of %d processes go on: %s", there, len(pids), s.errs.String())
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return half, err
		}
	}
}

// lapsAtLeast says whether all processes together are so far: to ask that costs a tenth of reading how far each is.
func lapsAtLeast(ctx context.Context, q *sqlite.Query, least int) (bool, error) {
	t, err := q.Run(ctx, "SELECT total(value) FROM main.state WHERE key = 'lap'", 0)
	if err != nil {
		return false, err
	}
	n, ok := t.Rows[0][0].(float64)
	if !ok {
		return false, fmt.Errorf("the laps together are %v", t.Rows[0][0])
	}
	return int(n) >= least, nil
}

// lapsOf reads what is durable.
func lapsOf(ctx context.Context, home string) (laps map[agentkernel.PID]int, err error) {
	q, _, err := embedded.OpenQuery(ctx, filepath.Join(home, "k"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	return lapsIn(ctx, q)
}

func lapsIn(ctx context.Context, q *sqlite.Query) (map[agentkernel.PID]int, error) {
	t, err := q.Run(ctx, "SELECT pid, value FROM main.state WHERE key = 'lap'", 0)
	if err != nil {
		return nil, err
	}
	laps := make(map[agentkernel.PID]int, len(t.Rows))
	for _, r := range t.Rows {
		pid, ok := r[0].(int64)
		lap, err := strconv.Atoi(fmt.Sprint(r[1]))
		if !ok || err != nil {
			return nil, fmt.Errorf("the state of process %v has the lap %v", r[0], r[1])
		}
		laps[agentkernel.PID(pid)] = lap
	}
	return laps, nil
}

// standingOf reads where processes stand that no kernel runs.
func standingOf(ctx context.Context, home string, pids []agentkernel.PID) (s standing, err error) {
	if s.laps, err = lapsOf(ctx, home); err != nil {
		return s, err
	}
	journals, err := openReader(ctx, filepath.Join(home, "k"))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, journals.Close()) }()
	s.between = map[agentkernel.PID]int64{}
	for _, pid := range pids {
		last, err := lastCall(ctx, journals, pid, 1)
		if err != nil {
			return s, err
		}
		if last.Op == "state.set" {
			s.between[pid] = last.Seq
		}
	}
	return s, nil
}

// lastCall is the last call of a process from an entry on; zero: there is none.
func lastCall(ctx context.Context, journals *sqlite.Reader, pid agentkernel.PID, from int64) (last agentkernel.Entry, err error) {
	entries, err := journals.Entries(ctx, pid, from, 0)
	for _, e := range entries {
		if e.Kind == agentkernel.EntryCall {
			last = e
		}
	}
	return last, err
}

// checkLaps reads all journals: each process has made every lap once, in order.
func checkLaps(ctx context.Context, home string, pids []agentkernel.PID) (err error) {
	store, err := openStore(ctx, filepath.Join(home, "k"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if n, err := store.Count(ctx, agentkernel.Filter{Unfinished: true}); err != nil || n != len(pids) {
		return fmt.Errorf("%d of %d processes are unfinished, %w", n, len(pids), err)
	}
	for _, pid := range pids {
		entries, err := store.Entries(ctx, pid, 1, 0)
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e agentkernel.Entry) bool { return e.Kind != agentkernel.EntryCall || e.Op != "state.set" })
		for lap, e := range entries {
			var args struct {
				Value int `json:"value"`
			}
			if err := json.Unmarshal(e.Args, &args); err != nil || args.Value != lap {
				return fmt.Errorf("pid %d: lap %d is there where lap %d should be, %w", pid, args.Value, lap, err)
			}
		}
	}
	return nil
}

// switchFloor is how long n context switches take on two bare workers.
func (b *bench) switchFloor(n int) (time.Duration, error) {
	errs := make(chan error, floorWorkers)
	began := time.Now()
	for range floorWorkers {
		go func() {
			w, err := startBareWorker(b.engine)
			if err == nil {
				_, err = w.switches(100, max(1, n/floorWorkers/switchesPerSample))
				err = errors.Join(err, w.close())
			}
			errs <- err
		}()
	}
	var err error
	for range floorWorkers {
		err = errors.Join(err, <-errs)
	}
	return time.Since(began), err
}
