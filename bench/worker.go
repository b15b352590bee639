package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/montypb"
)

// bareWorker is a Monty worker with nothing around it: the floor. It has framing of its own, one write for
// each request, and deals with nothing that can go wrong but by giving up. Its pipes block, so that the
// thread that asked is woken by the answer and by nothing in between.
type bareWorker struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
	buf []byte // request
	got []byte // answer
}

// noneValue is Python's None as the protocol writes it: field 2, empty.
var noneValue = []byte{0x12, 0x00}

func startBareWorker(engine string) (*bareWorker, error) {
	childIn, in, err := blockingPipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := blockingPipe()
	if err != nil {
		return nil, err
	}
	w := &bareWorker{cmd: exec.Command(engine, "subprocess"), in: in, out: bufio.NewReaderSize(out, 32<<10)}
	w.cmd.Stdin, w.cmd.Stdout = childIn, childOut
	err = w.cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		return nil, fmt.Errorf("bare worker: %w", err)
	}
	if err := w.configure(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// blockingPipe is os.Pipe without the runtime's poller.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func (w *bareWorker) close() error {
	_ = w.in.Close() // the worker ends when its input does
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it was killed
	return nil
}

// ask sends one request and gives the event that ends the turn, and what was printed before.
func (w *bareWorker) ask(r *montypb.Request) (ev *montypb.Event, printed string, err error) {
	w.buf, err = proto.MarshalOptions{}.MarshalAppend(append(w.buf[:0], 0, 0, 0, 0), r)
	if err != nil {
		return nil, "", err
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(w.buf)-4))
	if _, err := w.in.Write(w.buf); err != nil {
		return nil, "", err
	}
	for {
		var head [4]byte
		if _, err := io.ReadFull(w.out, head[:]); err != nil {
			return nil, "", fmt.Errorf("bare worker: %w", err)
		}
		w.got = slices.Grow(w.got[:0], int(binary.LittleEndian.Uint32(head[:])))[:binary.LittleEndian.Uint32(head[:])]
		if _, err := io.ReadFull(w.out, w.got); err != nil {
			return nil, "", fmt.Errorf("bare worker: %w", err)
		}
		ev := &montypb.Event{}
		if err := proto.Unmarshal(w.got, ev); err != nil {
			return nil, "", err
		}
		p, ok := ev.Kind.(*montypb.Event_Print)
		if !ok {
			return ev, printed, nil
		}
		printed += p.Print.GetText()
	}
}

func (w *bareWorker) expectOk(r *montypb.Request) error {
	ev, _, err := w.ask(r)
	if err != nil {
		return err
	}
	if _, ok := ev.Kind.(*montypb.Event_Ok); !ok {
		return fmt.Errorf("bare worker: %T instead of Ok", ev.Kind)
	}
	return nil
}

// configure begins a session with the limits that the kernel sets by default.
func (w *bareWorker) configure() error {
	l := agentkernel.DefaultLimits()
	return w.expectOk(&montypb.Request{Kind: &montypb.Request_Configure{Configure: &montypb.Configure{
		ScriptName: "main.py", ProtocolVersion: 2, PrintFlushIntervalMs: proto.Uint32(10),
		Limits: &montypb.Limits{
			MaxDurationMicros: proto.Uint64(uint64(l.Time) / 1000),
			MaxMemoryBytes:    proto.Uint64(uint64(l.Memory)),
			MaxRecursionDepth: proto.Uint64(uint64(l.Recursion)),
		},
	}}})
}

func (w *bareWorker) reset() error {
	return w.expectOk(&montypb.Request{Kind: &montypb.Request_Reset_{Reset_: &montypb.Unit{}}})
}

// feed runs a program to its first stop.
func (w *bareWorker) feed(code string) (*montypb.Event, string, error) {
	return w.ask(&montypb.Request{Kind: &montypb.Request_Feed{Feed: &montypb.Feed{Code: code, SkipTypeCheck: true}}})
}

// resume answers a call with None.
func (w *bareWorker) resume(call uint32) (*montypb.Event, error) {
	ev, _, err := w.ask(&montypb.Request{Kind: &montypb.Request_ResumeCall{ResumeCall: &montypb.ResumeCall{
		CallId: call, Result: &montypb.Result{Kind: &montypb.Result_Value{Value: noneValue}}}}})
	return ev, err
}

// whole runs a program that calls nothing, checks what it printed, and makes the worker ready for another.
func (w *bareWorker) whole(code, printed string) error {
	ev, text, err := w.feed(code)
	if err != nil {
		return err
	}
	if _, ok := ev.Kind.(*montypb.Event_Complete); !ok || text != printed {
		return fmt.Errorf("bare worker: %T after printing %q", ev.Kind, text)
	}
	if err := w.reset(); err != nil {
		return err
	}
	return w.configure()
}

// called is the id of the call at which the program stopped.
func called(ev *montypb.Event) (uint32, error) {
	c, ok := ev.Kind.(*montypb.Event_Call)
	if !ok {
		return 0, fmt.Errorf("bare worker: %T instead of a call", ev.Kind)
	}
	return c.Call.GetCallId(), nil
}

func (w *bareWorker) dump() ([]byte, error) {
	ev, _, err := w.ask(&montypb.Request{Kind: &montypb.Request_Dump{Dump: &montypb.Unit{}}})
	if err != nil {
		return nil, err
	}
	d, ok := ev.Kind.(*montypb.Event_DumpResult)
	if !ok {
		return nil, fmt.Errorf("bare worker: %T instead of a dump", ev.Kind)
	}
	return d.DumpResult.GetState(), nil
}

// load restores a dump in a worker without a session and gives the stop at which it was made.
func (w *bareWorker) load(image []byte) (*montypb.Event, error) {
	ev, _, err := w.ask(&montypb.Request{Kind: &montypb.Request_Load{Load: &montypb.Load{State: image}}})
	return ev, err
}

// functionInput gives a program the name input for a function that its host has.
func functionInput(input, function string) *montypb.Input {
	const functionField = 25 // of montypb.Value
	name := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), function)
	return &montypb.Input{Name: input, Value: protowire.AppendBytes(protowire.AppendTag(nil, functionField, protowire.BytesType), name)}
}
