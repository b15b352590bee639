package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/datadir"
)

// brokenKernel is one whose disk is full.
type brokenKernel struct{ fakeKernel }

func (*brokenKernel) Broken() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (*brokenKernel) Failure() error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full").WithHint("free space, then: agentkernel recover")
}

// quietDoor is a socket that nobody calls.
type quietDoor chan struct{}

func (d quietDoor) Done() <-chan struct{} { return d }
func (quietDoor) Close() error            { return nil }

// A kernel that cannot write any more ends, so that another one can have the data directory once there is room.
func TestServeEndsWhenItsStoreFails(t *testing.T) {
	r := newRig(t)
	r.any, r.door = &brokenKernel{}, make(quietDoor)
	if code := r.run("serve", "--no-recover"); code != agentkernel.CodeStorage.ExitCode() || !strings.Contains(r.err.String(), "error: the disk is full\nhint: free space") {
		t.Errorf("exit code %d: %s", code, r.err.String())
	}
}

// slowDoor is a socket that is not closed until the test lets it.
type slowDoor struct {
	quietDoor
	closed chan struct{}
}

func (d *slowDoor) Close() error { <-d.closed; return nil }

// A second signal does not wait for the end of the kernel; what it leaves unfinished is counted as at an end in order.
func TestServeStopsAtOnce(t *testing.T) {
	door := &slowDoor{make(quietDoor), make(chan struct{})}
	defer close(door.closed)
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKernel{info: agentkernel.KernelInfo{Unfinished: 3}}
	var shown screen
	a := &app{ctx: t.Context(), con: console.New(console.Config{Out: &shown, Err: &shown})}
	a.openReader = func(context.Context, string) (agentkernel.Kernel, error) { return k, nil }
	again := make(chan os.Signal, 1)
	again <- os.Interrupt
	err = (&serveCmd{}).stop(a, k, dir, door, again)
	if !errors.Is(err, exitCode(exitTerminated)) || shown.String() != "stopping at once; 3 unfinished: agentkernel recover\n" {
		t.Errorf("%v: %s", err, shown.String())
	}
}
