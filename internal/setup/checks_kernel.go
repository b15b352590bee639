package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/datadir"
)

const (
	// startGrace is how long a kernel that has just begun may take until it listens.
	startGrace = 5 * time.Second
	startPoll  = 20 * time.Millisecond
)

// checkKernel looks at the lock, the socket, and the version of the kernel behind it.
func checkKernel(ctx context.Context, o DoctorOptions) []Finding {
	holder, held := datadir.At(o.Home).Held()
	if !held {
		return ok("none is running; commands start one when they need it")
	}
	if holder.Mode == "embedded" {
		return ok("os process %d holds the directory for itself (--embedded) since %s", holder.OSPID, holder.Started.Format(time.RFC3339))
	}
	if holder.Mode != "serve" && holder.Mode != "background" {
		return ok("os process %d holds the directory for itself (%s) since %s", holder.OSPID, holder.Mode, holder.Started.Format(time.RFC3339))
	}
	if o.Dial == nil {
		return ok("os process %d, %s, version %s", holder.OSPID, holder.Mode, holder.Version)
	}
	dir, err := datadir.Open(o.Home) // it is there: a kernel holds it
	if err != nil {
		return failed(Fail, err)
	}
	k, err := o.Dial(ctx, dir.Socket())
	for agentkernel.CodeOf(err) == agentkernel.CodeUnavailable && time.Since(holder.Started) < startGrace {
		select { // it has just begun, and is about to listen, or it ends
		case <-ctx.Done():
			return kernelError(err, holder)
		case <-time.After(startPoll):
		}
		if _, held := dir.Held(); !held {
			return ok("none is running; commands start one when they need it")
		}
		k, err = o.Dial(ctx, dir.Socket())
	}
	if err != nil {
		return kernelError(err, holder)
	}
	defer k.Close()
	info, err := k.Info(ctx)
	if err != nil {
		return kernelError(err, holder)
	}
	if info.Version != o.Version {
		return warn("agentkernel shutdown; the next command starts one of this version",
			"os process %d runs version %s, and this is %s", info.OSPID, info.Version, o.Version)
	}
	text := fmt.Sprintf("os process %d, %s, version %s, since %s, %s", info.OSPID, info.Mode, info.Version,
		info.Started.Format(time.RFC3339), count(info.Processes, "process", "processes"))
	if info.Unfinished > 0 { // an earlier kernel has left them, and this one does not carry them
		return unfinished(ctx, k, text, info.Unfinished)
	}
	return ok("%s", text)
}

// unfinished is the finding that n processes wait for a recovery, after what else is said of their kernel or database.
func unfinished(ctx context.Context, k agentkernel.Kernel, text string, n int) []Finding {
	text = fmt.Sprintf("%s, %d unfinished", text, n)
	if len(AllPaused(ctx, k, n)) > 0 {
		return ok("%s, and paused: agentkernel ps says with which command each goes on", text)
	}
	return warn("agentkernel recover", "%s", text)
}

func kernelError(err error, h datadir.Holder) []Finding {
	f := failed(Fail, err)
	if f[0].Fix == "" {
		f[0].Fix = "look at the kernel log; agentkernel shutdown ends the kernel"
	}
	if agentkernel.CodeOf(err) == agentkernel.CodeUnavailable {
		pid := agentkernel.PID(h.OSPID).String()
		f[0].Found = "os process " + pid + " holds the directory, but does not answer: " + f[0].Found
		// The error's own hint is for those who have no kernel, and another one cannot be started.
		f[0].Fix = "look at the kernel log; agentkernel shutdown ends the kernel, or kill -9 " + pid + " if it hangs or is stopped; then: agentkernel recover"
	}
	return f
}

func checkDatabase(ctx context.Context, o DoctorOptions) []Finding {
	dir := datadir.At(o.Home)
	if !dir.Begun() {
		switch left, err := dir.Remains(); {
		case err != nil:
			return failed(Fail, err)
		case len(left) > 0:
			return warn("put a backup in its place: agentkernel restore FILE --force; or move away what is left: the first program begins a new one",
				"%s is not there, and what belongs to one is left in %s: %s", filepath.Base(dir.Database()), o.Home, strings.Join(left, ", "))
		}
		return ok("none yet; the first program makes it")
	}
	var size int64
	switch st, err := os.Stat(dir.Database()); {
	case err == nil:
		size = st.Size()
	case !errors.Is(err, fs.ErrNotExist): // that one was removed, the reader says
		return failed(Fail, err)
	}
	if o.Reader == nil {
		return ok("%s (%s)", dir.Database(), bytesize.Rounded(size))
	}
	k, err := o.Reader(ctx, o.Home)
	if err != nil && size == 0 && agentkernel.CodeOf(err) == agentkernel.CodeVersion { // the next kernel makes a new one of it
		return failed(Warn, err)
	}
	if err != nil {
		return failed(Fail, err)
	}
	defer k.Close()
	info, err := k.Info(ctx)
	if err != nil {
		return failed(Fail, err)
	}
	if info.Store.Damage != nil {
		return failed(Fail, info.Store.Damage)
	}
	if info.Unfinished > 0 {
		if _, held := dir.Holder(); !held {
			return unfinished(ctx, k, fmt.Sprintf("schema %d", info.Store.Schema), info.Unfinished)
		}
	}
	return ok("schema %d", info.Store.Schema) // how large it is, checkStorage says
}

// lookedAt is how many unfinished processes are looked at to say how they go on.
const lookedAt = 50

// AllPaused are the n processes that a kernel has left unfinished, if each of them is paused until somebody does something for it: a recovery
// continues none then. One that is paused at the end of an allowance is not among them: once a kernel carries it, it goes on by itself.
func AllPaused(ctx context.Context, k agentkernel.Kernel, n int) []agentkernel.Process {
	list, err := k.List(ctx, agentkernel.Filter{Unfinished: true, Limit: lookedAt})
	if err != nil || len(list) == lookedAt {
		return nil
	}
	list = slices.DeleteFunc(list, func(p agentkernel.Process) bool { return p.State != agentkernel.StateUnfinished })
	if len(list) != n || slices.ContainsFunc(list, func(p agentkernel.Process) bool { return !p.Paused || p.AllowanceAgain() != "" }) {
		return nil
	}
	return list
}
