package main

import (
	"strings"
	"testing"

	"agentkernel"
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
