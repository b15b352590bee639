package agentkernel

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits end a process that goes beyond them. Zero means the default of the kernel; the defaults are in
// [DefaultLimits]. A limit hit is an answer (CodeLimit, or CodeTimeout's exit code for Time and Wall).
type Limits struct {
	Time      Duration `json:"time,omitempty"`      // running time inside the sandbox, waiting not counted
	Wall      Duration `json:"wall,omitempty"`      // from creation to end, pauses left out; no default
	Memory    int64    `json:"memory,omitempty"`    // bytes of the program's heap; of all its processes where they have one limit
	Recursion int      `json:"recursion,omitempty"` // depth of calls
	Output    int64    `json:"output,omitempty"`    // bytes of stdout and stderr together
	Calls     int64    `json:"calls,omitempty"`     // syscalls over the whole life
	CallWait  Duration `json:"call_wait,omitempty"` // the longest one external call may take
	// Repeats is how often in a row the same call may be made with the same answer: the process is paused before the next. A child ends, unless
	// it is detached: its parent may wait for it.
	Repeats Repeats `json:"repeats,omitempty"`
	// InFlight is how many calls may be under way at one moment. The call beyond it is answered with
	// CodeLimit, and the program goes on.
	InFlight int `json:"in_flight,omitempty"`
	// Processes is how many processes the tree to which the process belongs may have at one moment, itself
	// included; the spawn beyond it is answered with CodeLimit.
	Processes int `json:"processes,omitempty"`
	// Journal is how many bytes the process and its tree may write to their journals.
	Journal int64 `json:"journal,omitempty"`
	// Disk is how many bytes the changes to workspace and volumes may hold, each name counted as 4 KiB beside the
	// size of its file. It is also the most that one file may have.
	Disk int64 `json:"disk,omitempty"`

	// The following are kept by the walls of the operating system, over all processes of a program, and mean nothing
	// where it runs in an interpreter of ours.

	CPUs      float64  `json:"cpus,omitempty"`       // processors at a time: 0.5 is half of one
	CPUTime   Duration `json:"cpu_time,omitempty"`   // of all processors together; no default
	Pids      int      `json:"pids,omitempty"`       // processes and threads at a time; more are refused
	OpenFiles int      `json:"open_files,omitempty"` // of each process; more are refused
	FileSize  int64    `json:"file_size,omitempty"`  // bytes of one file; no default besides Disk
}

// Repeats is a number of calls. In JSON 0 is none at all: then nothing is counted.
type Repeats int64

// AnyRepeats is no limit.
const AnyRepeats Repeats = math.MaxInt32

// Off says that there is no limit.
func (r Repeats) Off() bool { return r >= AnyRepeats }

// UnmarshalJSON reads a number.
func (r *Repeats) UnmarshalJSON(data []byte) error {
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if *r = Repeats(n); n == 0 && string(data) != "null" {
		*r = AnyRepeats
	}
	return nil
}

// Limit describes one of [Limits]. All that reads, checks, lowers, sets, explains or documents limits goes by [AllLimits]: a
// new limit is a field of Limits, a row of that table, and whoever enforces it.
type Limit struct {
	Name string // as in JSON, and behind "limits." in the settings
	Unit LimitUnit
	// Flag is the flag of the command line that sets it, Help what it means there. Each has one: a rerun has the limits of the old
	// process, so no setting of now raises what ended that.
	Flag, Help string
	Doc        string // what it means, for the settings
	Hit        string // why a process has ended by it: "it printed more"; "it ran for %s" takes what was used
	// Least is what a setting of somebody else may lower it to, as settings are written: hardly a program runs with less.
	Least string
	// None is the value that "none" and 0 stand for where people write it; 0: it cannot be switched off.
	None int64

	min, max float64 // what it can be; max 0: anything
	of       func(*Limits) any
}

// LimitUnit is what a limit counts.
type LimitUnit string

// The units of limits. A span is a [Duration], a size an int64 of bytes, a share a float64, and a number an int or int64.
const (
	LimitSpan   LimitUnit = "SPAN"
	LimitSize   LimitUnit = "SIZE"
	LimitShare  LimitUnit = "SHARE"
	LimitNumber LimitUnit = "N"
)

const (
	leastSpan = float64(time.Millisecond)
	mostBytes = 1 << 44 // 16 TiB, which no machine has: such a limit is a slip of the pen
	mostCount = 1_000_000
)

// AllLimits is the table of limits, in the order in which pages list them. It is not to be changed.
func AllLimits() []Limit { return allLimits() }

var allLimits = sync.OnceValue(func() []Limit {
	return []Limit{
		{Name: "time", Unit: LimitSpan, Flag: "--time", Help: "Running time, waiting not counted (default 60s).", Least: "1s",
			Doc: "running time inside the sandbox, waiting not counted", Hit: "it ran for %s inside the sandbox",
			min: leastSpan, of: func(l *Limits) any { return &l.Time }},
		{Name: "wall", Unit: LimitSpan, Flag: "--timeout", Help: "Time from start to end, waiting counted (default none).", Least: "1s",
			Doc: "time from creation to end, waiting counted", Hit: "it has existed for %s",
			min: leastSpan, of: func(l *Limits) any { return &l.Wall }},
		{Name: "memory", Unit: LimitSize, Flag: "--memory", Help: "Heap of the program: 64m, 1g (default 512m).", Least: "64m",
			Doc: "heap of the program (default 512m); of all its processes where they have one limit", Hit: "it needed more memory",
			min: 1 << 20, max: mostBytes, of: func(l *Limits) any { return &l.Memory }},
		{Name: "cpus", Unit: LimitShare, Flag: "--cpus", Help: "Processors at a time: 0.5, 2 (default 1). This and the next four: on the process backend.", Least: "0.1",
			Doc: "processors that a program may use at a time (default 1)", Hit: "it used more processors",
			min: 0.01, max: 4096, of: func(l *Limits) any { return &l.CPUs }},
		{Name: "cpu_time", Unit: LimitSpan, Flag: "--cpu-time", Help: "Processor time of all its processes together (default: what --cpus can give in --time, and 10s).", Least: "1s",
			Doc: "processor time of a program and all that it started", Hit: "its processes computed for longer together",
			min: leastSpan, of: func(l *Limits) any { return &l.CPUTime }},
		{Name: "pids", Unit: LimitNumber, Flag: "--pids", Help: "Processes and threads at a time (default 256).", Least: "32",
			Doc: "processes and threads of a program at a time (default 256)", Hit: "it wanted more processes and threads at a time",
			min: 1, max: 1 << 22, of: func(l *Limits) any { return &l.Pids }},
		{Name: "open_files", Unit: LimitNumber, Flag: "--files", Help: "Files that each of its processes may have open (default 1024).", Least: "64",
			Doc: "files that each process of a program may have open (default 1024)", Hit: "one of its processes wanted more open files",
			min: 16, max: 1 << 20, of: func(l *Limits) any { return &l.OpenFiles }},
		{Name: "file_size", Unit: LimitSize, Flag: "--file-size", Help: "The largest file that it may write (default 1g; with a folder what --disk says).", Least: "1m",
			Doc: "the largest file that a program may write", Hit: "it wrote a larger file",
			max: mostBytes, of: func(l *Limits) any { return &l.FileSize }},
		{Name: "recursion", Unit: LimitNumber, Flag: "--recursion", Help: "Depth of calls (default 1000).", Least: "100",
			Doc: "depth of calls", Hit: "its calls were nested deeper",
			min: 1, max: mostCount, of: func(l *Limits) any { return &l.Recursion }},
		{Name: "output", Unit: LimitSize, Flag: "--output-limit", Help: "What it may print (default 16m).", Least: "64k",
			Doc: "stdout and stderr together", Hit: "it printed more",
			max: mostBytes, of: func(l *Limits) any { return &l.Output }},
		{Name: "calls", Unit: LimitNumber, Flag: "--max-calls", Help: "System calls over its life (default 100000).", Least: "100",
			Doc: "syscalls over the whole life", Hit: "it made call %s",
			min: 1, of: func(l *Limits) any { return &l.Calls }},
		{Name: "call_wait", Unit: LimitSpan, Flag: "--call-timeout", Help: "The longest one external call may take (default 2m).", Least: "1s",
			Doc: "the longest that one external call may take", Hit: "a call took longer",
			min: leastSpan, of: func(l *Limits) any { return &l.CallWait }},
		{Name: "repeats", Unit: LimitNumber, Flag: "--repeats", Least: "1", None: int64(AnyRepeats),
			Help: "How often in a row it may make the same call with the same answer before it is paused, or ends if it is a child (default 50); none: any number.",
			Doc:  "the same call with the same answer in a row; the process is paused before the next, or ends if it is a child (default 50); none: it is not",
			Hit:  "it made the same call more often in a row",
			min:  1, max: float64(AnyRepeats), of: func(l *Limits) any { return (*int64)(&l.Repeats) }},
		{Name: "in_flight", Unit: LimitNumber, Flag: "--in-flight", Help: "Calls that it may have under way at one moment (default 1000).", Least: "1",
			Doc: "calls under way at one moment (default 1000)", Hit: "it had more calls under way",
			min: 1, max: mostCount, of: func(l *Limits) any { return &l.InFlight }},
		{Name: "processes", Unit: LimitNumber, Flag: "--processes", Help: "Processes that it and all below it may be at one moment (default 1000).", Least: "1",
			Doc: "processes of one tree at one moment (default 1000)", Hit: "its tree had more processes",
			min: 1, max: mostCount, of: func(l *Limits) any { return &l.Processes }},
		{Name: "disk", Unit: LimitSize, Flag: "--disk", Help: "What its changes to files may hold, and the largest file (default 2g).", Least: "1m",
			Doc: "what changes to files may hold, and the largest file (default 2g)", Hit: "it wrote more",
			max: mostBytes, of: func(l *Limits) any { return &l.Disk }},
		{Name: "journal", Unit: LimitSize, Flag: "--journal", Help: "What it and all below it may write to their journals (default 4g).", Least: "1m",
			Doc: "what one tree of processes may write to its journals (default 4g)", Hit: "the journals of its tree grew beyond what they may",
			max: mostBytes, of: func(l *Limits) any { return &l.Journal }},
	}
})

// limitNames names all limits, for sentences.
func limitNames() string {
	var names []string
	for _, l := range allLimits() {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// FindLimit gives the limit of a name, false if there is none.
func FindLimit(name string) (Limit, bool) {
	all := AllLimits()
	if i := slices.IndexFunc(all, func(l Limit) bool { return l.Name == name }); i >= 0 {
		return all[i], true
	}
	return Limit{}, false
}

// Of is the field of l that holds the limit: a *Duration, *int64, *int or *float64, as the unit says.
func (d *Limit) Of(l *Limits) any { return d.of(l) }

// Range is what the limit can be.
func (d *Limit) Range() (least, most float64) {
	if d.max == 0 {
		return d.min, math.Inf(1)
	}
	return d.min, d.max
}

// LimitFlag is the flag that sets a limit, which is named as in JSON; "": there is no such limit.
func LimitFlag(limit string) string {
	d, _ := FindLimit(limit)
	return d.Flag
}

// opLimit begins the Op of an error that says that one of [Limits] was hit; the limit's name follows. Stored journals have it.
const opLimit = "limit."

// LimitErrorf makes the error that says that a process has hit the limit of this name, as JSON names it.
func LimitErrorf(limit, format string, args ...any) *Error {
	return Errorf(CodeLimit, opLimit+limit, format, args...).WithHint("%s", RaiseLimit(limit))
}

// Limit is the name of the limit that e says was hit. ok is false if it is about something else; of code CodeLimit there are
// bounds, too, that are none of [Limits].
func (e *Error) Limit() (name string, ok bool) {
	if e == nil || e.Code != CodeLimit {
		return "", false
	}
	if name, ok = strings.CutPrefix(e.Op, opLimit); !ok {
		return "", false
	}
	return name, true
}

// RaiseLimit is the hint for a program that a limit has ended: what raises it. Each [Reader] has its own name for that.
func RaiseLimit(limit string) string {
	return LimitFlag(limit) + " raises the " + strings.ReplaceAll(limit, "_", " ") + " limit, if the program is right"
}

// DefaultLimits are in force where a Spec says nothing.
func DefaultLimits() Limits {
	return Limits{
		Time:      Duration(60 * time.Second),
		Memory:    512 << 20,
		Recursion: 1000,
		Output:    16 << 20,
		Calls:     100_000,
		CallWait:  Duration(2 * time.Minute),
		Repeats:   50,
		InFlight:  1000,
		Processes: 1000,
		Journal:   4 << 30,
		Disk:      2 << 30,
		CPUs:      1,
		Pids:      256,
		OpenFiles: 1024,
	}
}

// WithDefaults fills the zero fields of l from d.
func (l Limits) WithDefaults(d Limits) Limits {
	if l == (Limits{}) || l == d { // most name none, or have these already
		return d
	}
	return l.joined(d, func(mine, _ float64) bool { return mine == 0 })
}

// Within gives l, lowered to what the other has; 0 is no limit.
func (l Limits) Within(other Limits) Limits {
	return l.joined(other, func(mine, others float64) bool { return mine == 0 || others != 0 && others < mine })
}

// joined gives l with those fields of the other that take says.
func (l Limits) joined(other Limits, take func(mine, others float64) bool) Limits {
	all := AllLimits()
	for i := range all {
		mine, others := all[i].of(&l), all[i].of(&other)
		if !take(number(mine), number(others)) {
			continue
		}
		switch field := mine.(type) {
		case *Duration:
			*field = *others.(*Duration)
		case *int64:
			*field = *others.(*int64)
		case *int:
			*field = *others.(*int)
		case *float64:
			*field = *others.(*float64)
		}
	}
	return l
}

// number is the value of a field.
func number(field any) float64 {
	switch v := field.(type) {
	case *Duration:
		return float64(*v)
	case *int64:
		return float64(*v)
	case *int:
		return float64(*v)
	case *float64:
		return *v
	}
	panic("a limit of another type")
}

// Problem names a limit that no program can have, and says why not; "": there is none. A caller that has another name for it,
// such as a flag, says it with that.
func (l Limits) Problem() (name, why string) {
	if l == (Limits{}) {
		return "", ""
	}
	return l.problem()
}

func (l Limits) problem() (name, why string) {
	all := AllLimits()
	for i := range all {
		d := &all[i]
		n := number(d.of(&l))
		least, most := d.Range()
		switch {
		case n == 0 || n >= least && n <= most:
		case n < 0 && d.Unit != LimitShare:
			return d.Name, "it is below zero; leave it out for the default"
		case d.Unit == LimitSpan:
			return d.Name, fmt.Sprintf("%s is too short; it must be 1ms or more", Duration(n))
		case d.Unit == LimitSize && least > 0:
			why = fmt.Sprintf("%.0f bytes are not from 1 MiB to 16 TiB", n)
			if n < least {
				why += "; write " + d.Least + ", say"
			}
			return d.Name, why
		case d.Unit == LimitSize:
			return d.Name, fmt.Sprintf("%.0f bytes are more than 16 TiB", n)
		default:
			return d.Name, fmt.Sprintf("%v is not from %v to %v", bare(n), bare(least), bare(most))
		}
	}
	return "", ""
}

// bare is a number without an exponent.
func bare(n float64) any {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return int64(n)
	}
	return n
}
