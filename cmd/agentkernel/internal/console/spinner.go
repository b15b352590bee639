package console

import (
	"context"
	"fmt"
	"time"
)

const (
	patience  = time.Second            // silence before the progress line appears
	frameTime = 120 * time.Millisecond // between two frames
	askTime   = 500 * time.Millisecond // between two questions what is waited for
)

var frames = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Spin shows, after a second of silence, that something goes on: a spinner, how long, and what status says
// (it may be asked up to twice a second). It returns when ctx ends, the line erased.
func (c *Console) Spin(ctx context.Context, status func(context.Context) string) {
	if !c.cfg.ErrTTY || c.cfg.Quiet || c.cfg.Dumb {
		return
	}
	defer c.Progress("")
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	var what string
	var asked time.Time
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		quiet := c.Silence()
		if quiet < patience {
			continue
		}
		if time.Since(asked) >= askTime {
			what, asked = status(ctx), time.Now()
		}
		if ctx.Err() == nil {
			c.Progress(spinText(n, quiet, what))
		}
	}
}

func spinText(n int, quiet time.Duration, what string) string {
	text := fmt.Sprintf("%c %s", frames[n%len(frames)], quiet.Truncate(time.Second))
	if what != "" {
		text += " · " + what
	}
	return text
}
