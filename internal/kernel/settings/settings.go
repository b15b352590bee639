// Package settings says what a kernel is made of, and what holds where nobody says so. It starts nothing.
package settings

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/sys"
)

// spokenBy is how much of what all programs may have in the kernel there must be for each that runs: what it says in one turn is there
// several times until it is counted.
const spokenBy = 64 << 20

// Config says what a kernel is made of.
type Config struct {
	Store    agentkernel.Store
	Epoch    func(root agentkernel.PID) int64 // of the lease of a tree, where Store is a Fencer; nil: 0
	Backends []agentkernel.Backend            // in the order in which "auto" tries them
	// Families are the system calls beside the kernel's own.
	Families []sys.Family
	// Traffic knows the limits and keys of models; nil: there are none.
	Traffic sys.Traffic
	// Tools finds the tools that programs import.
	Tools sys.Toolbox
	// Library keeps skills and documents; nil: there are none.
	Library agentkernel.Library
	// Layers keeps what programs do to folders; nil: programs get none.
	Layers agentkernel.Layers
	// Backup writes a backup of everything that the kernel keeps; nil: there is no way to.
	Backup func(ctx context.Context, w io.Writer) error
	// Recovers says that Recover of all processes follows: callers that come before its end wait for it.
	Recovers bool
	// Allowances bound what the processes of a namespace spend in a day or a month; see Kernel.Allow.
	Allowances agentkernel.Allowances
	Limits     agentkernel.Limits // defaults for processes; zero fields are DefaultLimits
	Logger     *slog.Logger
	Observer   agentkernel.Observer // told what processes do; nil: none is
	Now        func() time.Time

	// Slots is how many programs may run at one moment; 0: twice the CPUs, or fewer where there is little memory, at least 4.
	Slots int
	// Weight is the weight of a namespace, by which it gets slots while others wait for some, too; nil: all have the same.
	Weight func(namespace string) int
	// Slice is how long a program keeps its slot while others wait for one: it gives it up at the end of the turn. 0: 50 ms;
	// less: each turn is the last.
	Slice time.Duration
	// Residents is how many sandboxes may be in memory; a waiting one is parked to make room. 0: eight for
	// each CPU, at least 16.
	Residents int
	// ParkAfter is how long a waiting sandbox stays in memory although nobody needs its place. 0: 1 s.
	ParkAfter time.Duration
	// Loaded is how many parked processes stay in memory; what else waits is read from the store when something wakes it.
	// 0: 8,192; less: none.
	Loaded int
	// SessionStay is how long a session whose backend makes no images keeps its sandbox between two cells although nobody
	// needs its place: to have it again costs the time of all its cells. 0: 15 min.
	SessionStay time.Duration
	Retention   agentkernel.Retention // of the store
	// Recordings makes what exports, imports and verifies processes; nil: nothing does.
	Recordings func(host agentkernel.RecordingHost) agentkernel.Recordings
	// Grace is how long Close waits for external calls under way, so that their results are journalled.
	Grace time.Duration

	About agentkernel.KernelInfo // for Info: Version, Mode, Home, Settings, Before
}

// TreeEnded notes that the processes of a tree have ended.
func (c *Config) TreeEnded(root agentkernel.PID) {
	if c.Traffic != nil {
		c.Traffic.Ended(root)
	}
}

// Complete fills in what is left out, and refuses a Config without which there is no kernel.
func (c *Config) Complete() error {
	if c.Store == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Store is missing")
	}
	if c.Tools == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Tools is missing")
	}
	if c.Retention == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Retention is missing")
	}
	c.Limits = c.Limits.WithDefaults(agentkernel.DefaultLimits())
	if c.Epoch == nil {
		c.Epoch = func(agentkernel.PID) int64 { return 0 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Slots == 0 {
		c.Slots = max(4, min(2*runtime.NumCPU(), int(room.Most()/spokenBy)))
	}
	if c.Slice == 0 {
		c.Slice = 50 * time.Millisecond
	}
	if c.Residents == 0 {
		c.Residents = max(16, 8*runtime.NumCPU())
	}
	c.Residents = max(c.Residents, c.Slots)
	if c.Loaded == 0 {
		c.Loaded = 8192
	}
	c.Loaded = max(c.Loaded, 0)
	if c.SessionStay == 0 {
		c.SessionStay = 15 * time.Minute
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = time.Second
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	return nil
}
