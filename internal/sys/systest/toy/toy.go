// Package toy is a family of which the kernel knows nothing, for its tests: it has one call for each thing that a family can
// do, in one folder, and is registered by one line. Whoever adds a family can begin with it.
package toy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// World is what the family works on outside the kernel: it outlives kernels.
type World struct {
	Fail  error               // what a charge says; nil: it was done
	Delay time.Duration       // how long a charge takes
	Grant agentkernel.Amounts // what each process may use up; nil: there are no bounds

	mu      sync.Mutex
	charged []string
	dropped []agentkernel.PID
	asked   []string
	open    int
	used    agentkernel.Amounts
}

// Charged are the charges that were made, with what was left of their keys.
func (w *World) Charged() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.charged)
}

// Used is what the charges have used up.
func (w *World) Used() agentkernel.Amounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// Dropped are the processes of which the family was told that they have ended or left memory.
func (w *World) Dropped() []agentkernel.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dropped)
}

// Asked are the items for which streams were asked.
func (w *World) Asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// Open is how many streams are open.
func (w *World) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// Family is the family.
func (w *World) Family() sys.Family {
	op := func(name string, effect agentkernel.Effect, args ...string) agentkernel.Syscall {
		desc := agentkernel.Syscall{Name: "toy." + name, Guest: "toy." + name, Effect: effect, Capability: "toy", Result: "any"}
		for _, a := range args {
			desc.Args = append(desc.Args, agentkernel.Param{Name: a, Type: "any", Optional: true, Default: "None"})
		}
		return desc
	}
	return sys.Family{Name: "toy",
		Grant: func(*agentkernel.Spec) agentkernel.Amounts { return w.Grant },
		Local: &sys.Local{Fold: fold, Save: save, Load: load, Drop: w.drop},
		Ops: []sys.Op{
			{Syscall: op("charge", agentkernel.EffectPaid, "for", "free", "effect", "reserve", "use", "left"), Admit: admit, Outside: w.charge,
				Subject: func(args json.RawMessage) string { return strings.Trim(string(args), "{}") }},
			{Syscall: op("stream", agentkernel.EffectRead, "items", "fail", "cost", "deaf", "keep", "usd", "ahead", "tells", "hangs"), Opens: true, Admit: admitStream, Outside: w.stream},
			{Syscall: op("wait", agentkernel.EffectPure), Rerun: sys.Free, Begin: wait},
			{Syscall: op("post", agentkernel.EffectPure, "to", "data", "priority"), Now: post},
			{Syscall: op("recv", agentkernel.EffectPure, "timeout"), Begin: recv},
			{Syscall: op("count", agentkernel.EffectPure), Rerun: sys.Own, Now: count},
			{Syscall: op("seen", agentkernel.EffectPure), Rerun: sys.Own, Now: seen},
		}}
}

// charge is what a charge is for.
type charge struct {
	For     string              `json:"for"`
	Free    bool                `json:"free"`
	Effect  agentkernel.Effect  `json:"effect"`
	Reserve agentkernel.Amounts `json:"reserve"`
	Use     agentkernel.Amounts `json:"use"`  // nil: nobody says
	Left    agentkernel.Amounts `json:"left"` // that it has used when nobody waits for it any more; nil: nobody says
}

// admit decides by the arguments what recovery may do with a charge, and what it reserves.
func admit(c *sys.Call) (sys.Admission, error) {
	var a charge
	if err := c.Decode(&a); err != nil {
		return sys.Admission{}, err
	}
	effect := agentkernel.EffectWrite
	if a.Free {
		effect = agentkernel.EffectRead
	}
	if a.Effect != "" {
		effect = a.Effect
	}
	return sys.Admission{Effect: effect, Subject: a.For, Name: "toy." + a.For, Pattern: "toy." + a.For, Value: a, Reserve: a.Reserve,
		Leave: func() agentkernel.Amounts { return a.Left }}, nil
}

// charge makes a charge, and says what it has used up.
func (w *World) charge(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	if w.Delay > 0 {
		select {
		case <-time.After(w.Delay):
		case <-ctx.Done():
			return sys.Outcome{}, ctx.Err()
		}
	}
	a := c.Admitted.(charge)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charged, w.used = append(w.charged, a.For+" "+c.Key[strings.IndexByte(c.Key, '/'):]), w.used.Plus(a.Use)
	return sys.Outcome{Result: json.RawMessage(`"done"`), Settle: a.Use}, w.Fail
}

// wait waits for a minute, also where a crash comes between.
func wait(c *sys.Call) (sys.Wait, error) {
	return sys.Wait{Until: c.Since.Add(time.Minute), Result: json.RawMessage(`"waited"`)}, nil
}

// post sends something to another process.
func post(c *sys.Call) (sys.Outcome, error) {
	var a struct {
		To       agentkernel.PID
		Data     json.RawMessage
		Priority int
	}
	err := c.Decode(&a)
	return sys.Outcome{Result: sys.Null, Posts: []sys.Post{{To: a.To, Kind: "toy", Priority: a.Priority, Data: a.Data}}}, err
}

// recv waits for what post has sent.
func recv(c *sys.Call) (w sys.Wait, err error) {
	var a struct{ Timeout *float64 }
	if err = c.Decode(&a); err == nil && a.Timeout != nil {
		w.Until, w.Err = c.Since.Add(sys.Seconds(*a.Timeout)), c.Errorf(agentkernel.CodeTimeout, "nothing came")
	}
	w.Kind = "toy"
	return w, err
}

// count keeps in the working set how often it was called.
func count(c *sys.Call) (out sys.Outcome, err error) {
	err = c.State.Change(func(keys map[string]json.RawMessage, _ int64) (map[string]json.RawMessage, error) {
		n := json.RawMessage(fmt.Sprint(len(keys["toy"]) + 1))
		out = sys.Outcome{Result: n, State: map[string]json.RawMessage{"toy": append(slices.Clip(keys["toy"]), '1')}}
		return out.State, nil
	})
	return out, err
}

// fold keeps what has become of each charge, in the order of the answers.
func fold(data any, s *sys.Step) any {
	lines, _ := data.([]string)
	if s.Op != "toy.charge" || !s.Answered {
		return data
	}
	var a charge
	_ = json.Unmarshal(s.Args, &a) // of a call that was refused for them
	says := "done"
	if s.Err != nil {
		says = string(s.Err.Code)
	}
	return append(slices.Clip(lines), a.For+" "+says)
}

func save(data any) json.RawMessage {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil // a list of texts always encodes
	}
	return raw
}

func load(raw json.RawMessage) (any, error) {
	var lines []string
	err := json.Unmarshal(raw, &lines)
	return lines, err
}

func (w *World) drop(pid agentkernel.PID, _ any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped = append(w.dropped, pid)
}

// seen says what has become of all charges of the process.
func seen(c *sys.Call) (sys.Outcome, error) {
	lines, _ := c.Local.([]string)
	raw, err := json.Marshal(slices.Concat([]string{}, lines))
	return sys.Outcome{Result: raw}, err
}

// opening is what a stream is to be.
type opening struct {
	Items int              `json:"items"`
	Fail  agentkernel.Code `json:"fail"`
	Cost  int64            `json:"cost"`
	Deaf  bool             `json:"deaf"`  // it does not hear that nobody waits any more
	Keep  int64            `json:"keep"`  // the call reserves so many coins for all items; else each reserves for itself
	USD   bool             `json:"usd"`   // they are nano-dollars
	Ahead bool             `json:"ahead"` // all of them are used up from the beginning
	Tells bool             `json:"tells"` // it says with its last item that it is the last, where the call has reserved
	Hangs bool             `json:"hangs"` // it has nothing until it is closed, which is an error, where the call has reserved
}

// kept is what the call reserves.
func (a *opening) kept() string {
	if a.USD {
		return agentkernel.AmountUSD
	}
	return "coins"
}

// admitStream reserves what a stream keeps.
func admitStream(c *sys.Call) (sys.Admission, error) {
	var a opening
	if err := c.Decode(&a); err != nil || a.Keep == 0 {
		return sys.Admission{}, err
	}
	return sys.Admission{Effect: agentkernel.EffectPaid, Reserve: agentkernel.Amounts{a.kept(): a.Keep}}, nil
}

// stream opens a stream of as many items, numbered from 1, of which each costs so many coins; then it ends or fails.
func (w *World) stream(_ context.Context, c *sys.Call) (sys.Outcome, error) {
	s := &stream{w: w, key: c.Key[strings.IndexByte(c.Key, '/'):], closed: make(chan struct{})}
	if err := c.Decode(&s.args); err != nil {
		return sys.Outcome{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	if s.args.Keep > 0 {
		k := &keeper{s}
		if s.args.Ahead {
			return sys.Outcome{Stream: &ahead{k}, Keeps: true}, nil
		}
		return sys.Outcome{Stream: k, Keeps: true}, nil
	}
	return sys.Outcome{Stream: s}, nil
}

type stream struct {
	w    *World
	key  string
	args opening
	n    int

	closed chan struct{}
}

// Reserve is what an item costs.
func (s *stream) Reserve() agentkernel.Amounts {
	if s.args.Cost == 0 {
		return nil
	}
	return agentkernel.Amounts{"coins": s.args.Cost}
}

// keeper is a stream whose call has reserved for all of it.
type keeper struct{ *stream }

// Reserve is nothing: the call has.
func (k *keeper) Reserve() agentkernel.Amounts { return nil }

// used is what the items have cost.
func (k *keeper) used() agentkernel.Amounts {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	n := k.n
	if k.args.Ahead {
		n = k.args.Items
	}
	return agentkernel.Amounts{k.args.kept(): int64(n) * k.args.Cost}
}

// all says that all items were given.
func (k *keeper) all() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.n == k.args.Items
}

// Next gives an item.
func (k *keeper) Next(ctx context.Context) (sys.Items, error) {
	if k.args.Hangs {
		select {
		case <-k.closed:
			return sys.Items{}, agentkernel.Errorf(agentkernel.CodeUnavailable, "toy", "the line was cut")
		case <-ctx.Done():
			return sys.Items{}, ctx.Err()
		}
	}
	items, err := k.stream.Next(ctx)
	items.Settle = nil
	if items.Ended = ctx.Err() == nil && (len(items.List) == 0 || k.args.Tells && k.all()); items.Ended {
		items.Total = k.used()
	}
	return items, err
}

// Settle closes it.
func (k *keeper) Settle() agentkernel.Amounts {
	k.Close()
	if k.args.Hangs {
		time.Sleep(time.Millisecond) // whoever waits for it learns of that first
	}
	return k.used()
}

// ahead is a keeper that has ended before it is read.
type ahead struct{ *keeper }

// OnEnd has fn called at once.
func (a *ahead) OnEnd(fn func(used agentkernel.Amounts)) { fn(a.used()) }

// Waiting says how far it is.
func (k *keeper) Waiting() string {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return fmt.Sprintf("%d so far", k.n)
}

// Next gives an item.
func (s *stream) Next(ctx context.Context) (sys.Items, error) {
	if s.w.Delay > 0 {
		select {
		case <-time.After(s.w.Delay):
		case <-s.stops(ctx):
			return sys.Items{}, ctx.Err()
		}
	}
	if s.n == s.args.Items && s.args.Fail != "" {
		return sys.Items{Settle: agentkernel.Amounts{}}, agentkernel.Errorf(s.args.Fail, "toy", "the line is dead")
	}
	if s.n == s.args.Items {
		return sys.Items{Settle: agentkernel.Amounts{}}, nil
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.n++
	s.w.asked, s.w.used = append(s.w.asked, fmt.Sprintf("%s:%d", s.key, s.n)), s.w.used.Plus(s.Reserve())
	return sys.Items{List: []json.RawMessage{json.RawMessage(fmt.Sprint(s.n))}, Settle: s.Reserve()}, nil
}

func (s *stream) stops(ctx context.Context) <-chan struct{} {
	if s.args.Deaf {
		return nil
	}
	return ctx.Done()
}

// Close closes it.
func (s *stream) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.open--
	close(s.closed)
}
