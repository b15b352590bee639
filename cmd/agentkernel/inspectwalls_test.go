package main

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func TestInspectShowsWalls(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    agentkernel.Process
		want []string
		not  string
	}{
		{"walls", agentkernel.Process{Resident: true, Walls: []agentkernel.Wall{{Name: "no network", On: true, How: "x"}, {Name: "seccomp", On: true},
			{Name: "landlock", How: "this Linux has none"}}}, []string{"no network, seccomp", "landlock: this Linux has none"}, "it can do all"},
		{"no walls", agentkernel.Process{Resident: true}, []string{"it can do all"}, "walls  "},
		{"ended", agentkernel.Process{State: agentkernel.StateExited, Walls: []agentkernel.Wall{{Name: "no network", On: true}}}, []string{"no network"}, "no wall"},
		{"ended without", agentkernel.Process{State: agentkernel.StateExited, Backend: "unconfined"}, []string{"it could do all"}, "walls  "},
		{"no sandbox", agentkernel.Process{}, nil, "wall"},
	} {
		text := (&inspection{Process: public(tc.p)}).text(time.Now(), (&app{}).withHomeFormat)
		for _, w := range tc.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", tc.name, w, text)
			}
		}
		if strings.Contains(text, tc.not) {
			t.Errorf("%s: %q in\n%s", tc.name, tc.not, text)
		}
	}
}
