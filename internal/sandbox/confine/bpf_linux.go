package confine

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// bpfSize is the size of one instruction, struct sock_filter.
const bpfSize = 8

// Offsets into struct seccomp_data, what a filter sees of a call (seccomp(2)). Both architectures here are
// little endian, so the low half of an argument comes first.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// Verdicts, the filter's results.
const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func refuse(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// program is classic BPF being written. (gvisor's pkg/seccomp writes it too, and brings nineteen packages; a library
// that calls libseccomp brings cgo.)
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, K: k})
}

func (p *program) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
func (p *program) ret(verdict uint32) { p.add(unix.BPF_RET|unix.BPF_K, verdict) }

// unless jumps over the next n instructions unless the comparison holds.
func (p *program) unless(comparison uint16, k uint32, n uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: k, Jf: n})
}

// when jumps over the next n instructions when the comparison holds.
func (p *program) when(comparison uint16, k uint32, n uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: k, Jt: n})
}

func (p program) bytes() []byte {
	b := make([]byte, 0, len(p)*bpfSize)
	for _, in := range p {
		b = binary.NativeEndian.AppendUint16(b, in.Code)
		b = append(b, in.Jt, in.Jf)
		b = binary.NativeEndian.AppendUint32(b, in.K)
	}
	return b
}

// check decides over one call by its arguments; nil allows.
type check []unix.SockFilter

// span is a run of neighbouring call numbers with the same fate.
type span struct {
	first   uint32
	verdict uint32
	check   check
}

// compileFilter makes the whole filter out of what is known of each call. What is not listed gets other;
// numbers beyond the newest that this program knows get ENOSYS, which tells a library to use what is older.
func compileFilter(rules map[uint32]check, refused map[uint32]uint32, other uint32) []byte {
	var p program
	p.load(atArch)
	p.when(unix.BPF_JEQ, auditArch, 1)
	p.ret(kill)
	p.load(atNumber)
	p.search(spans(rules, refused, other))
	return p.bytes()
}

func spans(rules map[uint32]check, refused map[uint32]uint32, other uint32) []span {
	var list []span
	put := func(s span) {
		if n := len(list); n > 0 && s.check == nil && list[n-1].check == nil && list[n-1].verdict == s.verdict {
			return
		}
		list = append(list, s)
	}
	for nr := range uint32(newestCall + 1) {
		c, listed := rules[nr]
		verdict, no := refused[nr]
		switch {
		case no:
			put(span{nr, verdict, nil})
		case listed:
			put(span{nr, allow, c})
		default:
			put(span{nr, other, nil})
		}
	}
	if other != allow {
		other = refuse(unix.ENOSYS)
	}
	put(span{newestCall + 1, other, nil})
	return list
}

// search writes a binary search over the spans: the number is in the accumulator.
func (p *program) search(list []span) {
	if len(list) == 1 {
		s := list[0]
		if s.check != nil {
			*p = append(*p, s.check...)
		}
		p.ret(s.verdict)
		return
	}
	mid := len(list) / 2
	var left, right program
	left.search(list[:mid])
	right.search(list[mid:])
	if len(left) < 256 {
		p.when(unix.BPF_JGE, list[mid].first, uint8(len(left))) //nolint:gosec // just compared
	} else { // too far for a conditional jump
		p.unless(unix.BPF_JGE, list[mid].first, 1)
		p.add(unix.BPF_JMP|unix.BPF_JA, uint32(len(left))) //nolint:gosec // the kernel takes 4096 instructions
	}
	*p = append(*p, left...)
	*p = append(*p, right...)
}

// low loads the low half of argument n.
func low(n uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: atArgs + 8*n}
}

// high loads the high half of argument n.
func high(n uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: atArgs + 8*n + 4}
}

// without refuses the call when argument n has one of these bits.
func without(n, bits uint32, e unix.Errno) check {
	var p program
	p = append(p, low(n))
	p.unless(unix.BPF_JSET, bits, 1)
	p.ret(refuse(e))
	return check(p)
}

// oneOf refuses the call unless the low half of argument n, under the mask, is one of these.
func oneOf(n, mask uint32, e unix.Errno, values ...uint32) check {
	p := masked(n, mask)
	for i, v := range values {
		p.when(unix.BPF_JEQ, v, uint8(len(values)-i)) //nolint:gosec // a short list
	}
	p.ret(refuse(e))
	return check(p)
}

// noneOf refuses the call when the low half of argument n, under the mask, is one of these.
func noneOf(n, mask uint32, e unix.Errno, values ...uint32) check {
	p := masked(n, mask)
	for i, v := range values[:len(values)-1] {
		p.when(unix.BPF_JEQ, v, uint8(len(values)-1-i)) //nolint:gosec // a short list
	}
	p.unless(unix.BPF_JEQ, values[len(values)-1], 1)
	p.ret(refuse(e))
	return check(p)
}

func masked(n, mask uint32) program {
	p := program{low(n)}
	if mask != anyBit {
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask)
	}
	return p
}

const anyBit = 0xffffffff

// both refuses what either check refuses. A check leaves the accumulator undefined and starts with a load.
func both(checks ...check) check { return slices.Concat(checks...) }
