package mcpserver

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// heartbeat is how often a client that asked for progress hears that its program still runs.
const heartbeat = time.Second

// watch listens to a program for one call: it collects what is printed, sends progress to a client that asked
// for it, and passes on what the program logs.
type watch struct {
	c      *call
	given  context.Context // of the call
	ctx    context.Context // until stop
	cancel context.CancelFunc
	clock  *clock // nil: none
	begun  time.Time
	pid    agentkernel.PID
	done   chan struct{}
	beats  sync.WaitGroup
	asking sync.WaitGroup

	session bool // it watches a cell of a session

	mu             sync.Mutex
	stdout, stderr capped
	printed        int64  // bytes of both
	seq            int64  // journal position of the last event
	idle           int64  // journal position at which a session reported how the cell ended
	last           string // the newest line
	steps          float64
}

func (c *call) watch(ctx context.Context, clock *clock) *watch {
	w := &watch{c: c, given: ctx, clock: clock, begun: c.h.cfg.Now(), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if token := c.req.Params.GetProgressToken(); token != nil {
		w.beats.Go(func() { w.beat(token) })
	}
	return w
}

// stop ends notifications and questions; none is sent after it returns.
func (w *watch) stop() {
	close(w.done)
	w.cancel()
	w.beats.Wait()
	w.asking.Wait()
}

// event takes one event of the program.
func (w *watch) event(ev agentkernel.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ev.Seq != 0 { // else it is a question of a process below
		w.pid, w.seq = ev.PID, max(w.seq, ev.Seq)
	}
	switch ev.Kind {
	case agentkernel.EventOutput:
		stream := &w.stdout
		if ev.Stream == "stderr" {
			stream = &w.stderr
		}
		stream.add(ev.Text, w.printed)
		w.printed += int64(len(ev.Text))
		if line := strings.TrimSpace(ev.Text); line != "" {
			w.last = line[strings.LastIndexByte(line, '\n')+1:]
			w.last = strings.ToValidUTF8(w.last[:min(len(w.last), 200)], "")
		}
	case agentkernel.EventIdle:
		w.idle = ev.Seq
	case agentkernel.EventAsk:
		w.asked(ev.PID, ev.Ask)
	case agentkernel.EventLog:
		w.log(ev)
	}
	return nil
}

// seen is the journal position of the last event.
func (w *watch) seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// log passes a line of kernel.log on; what the client does not want, the SDK keeps back.
func (w *watch) log(ev agentkernel.Event) {
	level, text, found := strings.Cut(ev.Text, ": ")
	if !found {
		level, text = "info", ev.Text
	}
	switch level {
	case "debug", "info", "warning", "error":
	default:
		level, text = "info", ev.Text
	}
	// A client that is gone needs no log. The newest protocol plans to drop logging; clients of today have it.
	//nolint:staticcheck // deprecated in 2026-07-28, and in use until then and a year beyond
	_ = w.c.req.Session.Log(w.ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(level), Logger: "process " + ev.PID.String(), Data: text})
}

// beat tells the client once a second that the program runs, with the newest line of its output.
func (w *watch) beat(token any) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-w.ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		w.steps++
		message := w.last
		steps := w.steps
		w.mu.Unlock()
		if message == "" {
			message = "running"
		}
		if !speaks(w.c.req.Session, annotationsSince) {
			message = ""
		}
		_ = w.c.req.Session.NotifyProgress(w.ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: steps, Message: message})
	}
}
