package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// A program cannot push an argument out of the question, nor write anything that a client shows as something else.
func TestQuestionShowsEveryArgument(t *testing.T) {
	args, err := json.Marshal(map[string]string{"content": strings.Repeat("x", 5000) + "\u202e\u2066\u2028\u2029", "path": "/root/.ssh/authorized_keys"})
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(string(args)) // json.Marshal escapes these; canonical JSON does not
	got := elicit(&agentkernel.Ask{Call: "fs.write\u202e", Effect: agentkernel.EffectWrite, Args: json.RawMessage(raw)}).Message
	for _, want := range []string{`"fs.write\u202e"`, `content="xxx`, " more ", `\u202e\u2066\u2028\u2029"`, `path="/root/.ssh/authorized_keys"`} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s: %s", want, got)
		}
	}
	if strings.ContainsAny(got, "\u202e\u2066\u2067\u2068\u2069\u2028\u2029\n") || len(got) > 1200 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// The time that a human takes is not the program's.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, stop := bounded(t.Context(), 10*time.Second)
		defer stop()
		ended := make(chan time.Time, 1)
		defer context.AfterFunc(ctx, func() { ended <- time.Now() })()
		begun := time.Now()
		<-time.After(4 * time.Second)
		clock.hold()
		clock.hold() // a second question at the same time
		<-time.After(time.Hour)
		clock.release()
		<-time.After(time.Hour)
		clock.release()
		if got := (<-ended).Sub(begun); got != 2*time.Hour+10*time.Second {
			t.Errorf("it ended after %s", got)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errTimeout) {
			t.Errorf("because %v", cause)
		}
	})
}

// A program that ends in time ends for no such reason, and one without a clock may be asked, too.
func TestClockIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, stop := bounded(t.Context(), time.Second)
		clock.hold()
		stop()
		clock.release()
		<-time.After(time.Minute)
		if errors.Is(context.Cause(ctx), errTimeout) || ctx.Err() == nil {
			t.Errorf("%v, %v", ctx.Err(), context.Cause(ctx))
		}
		var none *clockKind
		none.hold()
		none.release()
	})
}

type clockKind = clock // the variable above hides the type
