package confine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// descriptors are what a launch needs besides its plan, by number in the spawner. All are above 2.
type descriptors struct {
	sync, report, control, status int
	files                         []int          // the program's 0, 1, 2, ...
	trees                         map[string]int // of Plan.Trees
}

// newLaunch makes a plan ready for fork.
func newLaunch(p *Plan, d descriptors) (*launch, error) {
	l := &launch{
		flags: uintptr(p.Clone),
		sync:  uintptr(d.sync), report: uintptr(d.report), control: uintptr(d.control), status: uintptr(d.status),
		files: make([]uintptr, len(d.files)), dups: make([]uintptr, len(d.files)),
	}
	for i, fd := range d.files {
		l.files[i] = uintptr(fd)
	}
	var err error
	if l.setup, err = l.compile(p.Setup, d.trees); err != nil {
		return nil, err
	}
	if l.seal, err = l.compile(p.Seal, d.trees); err != nil {
		return nil, err
	}
	l.path = l.cString(p.Program.Path)
	l.argv, l.envp = l.cStrings(p.Program.Args), l.cStrings(p.Program.Env)
	l.gaps = gaps(d)
	return l, nil
}

// gaps are the ranges of descriptor numbers between those that the child needs.
func gaps(d descriptors) [][2]uintptr {
	keep := append([]int{d.sync, d.report, d.control, d.status}, d.files...)
	for _, fd := range d.trees {
		keep = append(keep, fd)
	}
	slices.Sort(keep)
	var ranges [][2]uintptr
	next := 0
	for _, fd := range slices.Compact(keep) {
		if fd > next {
			ranges = append(ranges, [2]uintptr{uintptr(next), uintptr(fd - 1)})
		}
		next = fd + 1
	}
	return append(ranges, [2]uintptr{uintptr(next), math.MaxUint32})
}

func (l *launch) compile(steps []Step, trees map[string]int) ([]rawCall, error) {
	calls := make([]rawCall, len(steps))
	saved := map[string]uint8{}
	for i, s := range steps {
		if len(s.Args) > len(calls[i].args) || len(s.OK) > len(calls[i].ok) {
			return nil, fmt.Errorf("step %d (%s) has too many arguments", i, s.Call)
		}
		calls[i].nr = uintptr(s.Nr)
		for j, a := range s.Args {
			if err := l.compileArg(&calls[i], j, a, trees, saved); err != nil {
				return nil, fmt.Errorf("step %d (%s): %w", i, s.Call, err)
			}
		}
		for j, e := range s.OK {
			calls[i].ok[j] = uintptr(e)
		}
		if s.Save != "" {
			if len(saved) == maxSaved {
				return nil, fmt.Errorf("step %d (%s): too many results are kept", i, s.Call)
			}
			if _, again := saved[s.Save]; !again {
				saved[s.Save] = uint8(len(saved) + 1) //nolint:gosec // at most maxSaved
			}
			calls[i].save = saved[s.Save]
		}
	}
	return calls, nil
}

func (l *launch) compileArg(c *rawCall, j int, a Arg, trees map[string]int, saved map[string]uint8) error {
	switch {
	case a.Str != nil:
		c.args[j] = uintptr(unsafe.Pointer(l.cString(*a.Str)))
	case a.Bytes != nil:
		c.args[j] = l.address(slices.Clone(a.Bytes))
	case a.Filter != nil:
		c.args[j] = l.filter(a.Filter)
	case a.FD != "":
		fd, ok := trees[a.FD]
		if !ok {
			return fmt.Errorf("there is no tree %q", a.FD)
		}
		c.args[j] = uintptr(fd)
	case a.Saved != "":
		if c.saved[j] = saved[a.Saved]; c.saved[j] == 0 {
			return fmt.Errorf("no earlier step has saved %q", a.Saved)
		}
	default:
		c.args[j] = uintptr(a.Num)
	}
	return nil
}

// address keeps b alive as long as l and gives its address; the garbage collector does not move it.
func (l *launch) address(b []byte) uintptr {
	if len(b) == 0 {
		b = make([]byte, 8)
	}
	l.keep = append(l.keep, b)
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

func (l *launch) cString(s string) *byte {
	b := append([]byte(s), 0)
	l.keep = append(l.keep, b)
	return &b[0]
}

func (l *launch) cStrings(list []string) **byte {
	p := make([]*byte, len(list)+1)
	for i, s := range list {
		p[i] = l.cString(s)
	}
	l.keep = append(l.keep, p)
	return &p[0]
}

// filter makes a struct sock_fprog.
func (l *launch) filter(program []byte) uintptr {
	p := &unix.SockFprog{Len: uint16(len(program) / bpfSize)} //nolint:gosec // the kernel takes no more than 4096
	code := make([]unix.SockFilter, max(1, p.Len))
	for i := range code[:p.Len] {
		b := program[i*bpfSize:]
		code[i] = unix.SockFilter{Code: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:])}
	}
	p.Filter = &code[0]
	l.keep = append(l.keep, p)
	return uintptr(unsafe.Pointer(p))
}
