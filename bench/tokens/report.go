package main

import (
	"fmt"
	"io"
	"time"
)

// side is what one way of doing a task took.
type side struct {
	In      int     `json:"tokens_in"`
	Out     int     `json:"tokens_out"`
	Schemas int     `json:"of_which_schemas"`
	Turns   int     `json:"round_trips"`
	WallMS  float64 `json:"wall_ms"` // of calls and programs, without the model
}

func (s *side) take(m *meter, wall time.Duration) {
	*s = side{In: m.in, Out: m.out, Schemas: m.fixed, Turns: m.turns, WallMS: float64(wall.Microseconds()) / 1000}
}

func (s side) tokens() int { return s.In + s.Out }

type row struct {
	Task     string `json:"task"`
	What     string `json:"what"`
	Direct   side   `json:"direct"`
	Programs side   `json:"programs"`
}

// report is one way. The last task is the smallest, which no program can make smaller.
type report struct {
	Way  string `json:"way"`
	Rows []row  `json:"rows"`
	way  way
}

// saved is the share of all tokens of the tasks, the smallest left out, that programs save.
func (r report) saved() float64 {
	var direct, programs int
	for _, row := range r.Rows {
		if row.Task != oneCall.name {
			direct += row.Direct.tokens()
			programs += row.Programs.tokens()
		}
	}
	if direct == 0 {
		return 0
	}
	return 1 - float64(programs)/float64(direct)
}

// worst is the largest quotient of programs and direct calls over all tasks.
func (r report) worst() float64 {
	worst := 0.0
	for _, row := range r.Rows {
		worst = max(worst, float64(row.Programs.tokens())/float64(row.Direct.tokens()))
	}
	return worst
}

func (r report) markdown(out io.Writer) {
	fmt.Fprintf(out, "\n**%s**: %s\n\n", r.way.name, r.way.say)
	fmt.Fprintln(out, "| task | | tokens in | of these schemas | tokens out | all tokens | round trips | wall time |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|--:|--:|--:|")
	for _, row := range r.Rows {
		print := func(what, how string, s side, ratio string) {
			fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %d%s | %d | %.0f ms |\n", what, how, s.In, s.Schemas, s.Out, s.tokens(), ratio, s.Turns, s.WallMS)
		}
		print(row.What, "calls", row.Direct, "")
		print("", "programs", row.Programs, fmt.Sprintf(" (%.1f %%)", 100*float64(row.Programs.tokens())/float64(row.Direct.tokens())))
	}
	met := func(ok bool) string {
		if ok {
			return "met"
		}
		return "**missed**"
	}
	fmt.Fprintf(out, "\nSaved over the five tasks: %.1f %% (goal: at least %.0f %%, %s). The worst of all, the smallest included: %.2f x (goal: at most %.1f x, %s).\n",
		100*r.saved(), 100*r.way.goalSaved, met(r.saved() >= r.way.goalSaved), r.worst(), r.way.goalSmallest, met(r.worst() <= r.way.goalSmallest))
}
