package monty

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/montypb"
)

// bareWorker is a worker without pool and sandbox: the floor that the rest is measured against.
func bareWorker(b *testing.B) *worker {
	cfg, err := Config{Launcher: plainLauncher{}}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	w, err := newWalls(&cfg).start(b.Context(), enginePath(b), settingsOf(agentkernel.DefaultLimits()), func(*worker) {})
	if err == nil {
		err = w.settle(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		w.kill(errRetired)
		<-w.buried
		w.closePipes()
	})
	return w
}

// exchange sends a request and reads frames up to the one that is no print, without decoding it.
func exchange(b *testing.B, w *worker, req []byte) {
	if err := w.send(req); err != nil {
		b.Fatal(err)
	}
	for {
		f, err := w.frames.next()
		if err != nil {
			b.Fatal(err)
		}
		if f[0] != 0x0a { // Event.print
			return
		}
	}
}

func BenchmarkFloorRun(b *testing.B) {
	w := bareWorker(b)
	feed := bound("print(6*7)").feeds[0].frame
	reset := frame(&montypb.Request{Kind: &montypb.Request_Reset_{Reset_: &montypb.Unit{}}})
	conf := w.conf.frame()
	for b.Loop() {
		exchange(b, w, feed)
		exchange(b, w, reset)
		exchange(b, w, conf)
	}
}

func BenchmarkRun(b *testing.B) {
	be := newBackend(b)
	r := newRun(b, be, "print(6*7)")
	for b.Loop() {
		r.out.Reset()
		box, err := be.Start(context.Background(), r.req)
		if err != nil {
			b.Fatal(err)
		}
		if turn, err := box.Next(context.Background(), nil); err != nil || turn.Kind != agentkernel.TurnExit {
			b.Fatal(turn, err)
		}
		_ = box.Close()
	}
}

func BenchmarkFloorCall(b *testing.B) {
	w := bareWorker(b)
	exchange(b, w, bound("while True: f(1)", "f=kernel.log").feeds[0].frame)
	val := appendEmpty(make([]byte, replyRoom), fieldNone)
	id := uint32(0)
	for b.Loop() {
		exchange(b, w, valueReply(val, id, false))
		id++
	}
}

func BenchmarkCall(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background()) // as the kernel: a context that may end
	defer cancel()
	r := boundRun(b, newBackend(b), "while True: f(1)", "f=kernel.log").start()
	if _, err := r.box.Next(ctx, nil); err != nil {
		b.Fatal(err)
	}
	reply := &agentkernel.Reply{ID: 1, Result: json.RawMessage("null")}
	for b.Loop() {
		if turn, err := r.box.Next(ctx, reply); err != nil || turn.Kind != agentkernel.TurnCall {
			b.Fatal(turn, err)
		}
	}
}

// A context switch: the program comes back from its image, makes one call, and is parked again.
func BenchmarkSwitch(b *testing.B) {
	be := newBackend(b)
	r := newRun(b, be, "from tools.fs import read\nfrom kernel import state\n"+strings.Repeat("def helper(x):\n    return x + 1\n", 20)+"while True:\n    state.get('k')")
	r.req.Tools = []agentkernel.Tool{{Server: "fs", Name: "read", PythonServer: "fs", PythonName: "read", Signature: "read(path: str) -> str"}}
	r.start()
	_, err := r.box.Next(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if r.req.Image, err = r.box.Image(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(r.req.Image)), "image-bytes")
	reply := &agentkernel.Reply{ID: 1, Result: json.RawMessage("null")}
	for b.Loop() {
		box, err := be.Start(context.Background(), r.req)
		if err == nil {
			_, err = box.Next(context.Background(), nil)
		}
		if err == nil {
			_, err = box.Next(context.Background(), reply)
		}
		if err == nil {
			r.req.Image, err = box.Image(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
		_ = box.Close()
	}
}

// What the engine alone takes for such a switch.
func BenchmarkFloorSwitch(b *testing.B) {
	w := bareWorker(b)
	exchange(b, w, bound("from datetime import date\n"+strings.Repeat("def helper(x):\n    return x + 1\n", 20)+"while True:\n    f('k')", "f=kernel.state.get").feeds[0].frame)
	dump := func() []byte {
		if err := w.send(dumpRequest()); err != nil {
			b.Fatal(err)
		}
		var ev montypb.Event
		if err := w.recv(&ev); err != nil {
			b.Fatal(err)
		}
		return ev.GetDumpResult().GetState()
	}
	state := dump()
	reset := frame(&montypb.Request{Kind: &montypb.Request_Reset_{Reset_: &montypb.Unit{}}})
	val := appendEmpty(make([]byte, replyRoom), fieldNone)
	exchange(b, w, reset)
	id := uint32(0)
	for b.Loop() {
		exchange(b, w, frame(&montypb.Request{Kind: &montypb.Request_Load{Load: &montypb.Load{State: state}}}))
		exchange(b, w, valueReply(val, id, false))
		id++
		state = dump()
		exchange(b, w, reset)
	}
}

func BenchmarkDecodeRows(b *testing.B) {
	row := `{"id":12345,"name":"a name","price":1.5,"day":"2026-11-21"}`
	wire, err := appendValue(nil, json.RawMessage("["+strings.Repeat(row+",", 49_999)+row+"]"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wire)))
	for b.Loop() {
		if _, err := appendJSON(nil, wire); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRows(b *testing.B) {
	row := `{"id":12345,"name":"a name","price":1.5,"day":"2026-11-21"}`
	raw := json.RawMessage("[" + strings.Repeat(row+",", 49_999) + row + "]")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := appendValue(nil, raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEventDecode(b *testing.B) {
	frame, err := proto.Marshal(&montypb.Event{Kind: &montypb.Event_Call{Call: &montypb.FunctionCall{Name: "kernel.log",
		Args: [][]byte{appendEmpty(nil, fieldNone)}, CallId: 7}}, TotalExecutionMicros: 99})
	if err != nil {
		b.Fatal(err)
	}
	var ev montypb.Event
	for b.Loop() {
		if err := proto.Unmarshal(frame, &ev); err != nil {
			b.Fatal(err)
		}
	}
}
