package main

import (
	"errors"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/regular"
	"agentkernel/userland/agent"
)

// steps is what a task tells in its log, beside what it prints: its steps, and the program that is to be a skill.
type steps struct {
	lines bool               // each step is a line of JSON, and the end is the last one
	skill *agentkernel.Skill // to be saved when the task is done; nil: none

	turns  int64
	cost   float64
	reason string
	saved  *savedSkill
}

// taskStep is a line of do --json.
type taskStep struct {
	agent.Step
	PID agentkernel.PID `json:"pid"`
	Seq int64           `json:"seq"`
	At  time.Time       `json:"at"`
}

// taskEnd is the last line of do --json: what run --json prints, and what the task has cost.
type taskEnd struct {
	Kind    string      `json:"kind"`
	Reason  string      `json:"reason"` // "done", or why it is not
	Turns   int64       `json:"turns"`
	Tokens  int64       `json:"tokens"`
	CostUSD float64     `json:"cost_usd"`
	Skill   *savedSkill `json:"skill,omitempty"`
	runResult
}

// savedSkill is the skill that a program was kept as, or why it was not.
type savedSkill struct {
	Name      string             `json:"name"`
	Version   int                `json:"version,omitempty"`
	Functions []string           `json:"functions,omitempty"`
	Error     *agentkernel.Error `json:"error,omitempty"`
}

// take reads a line of the log of a task. What is no step is a line of a program that runs in the task's process.
func (s *steps) take(w *watch, e agentkernel.Event) error {
	told, ok := agent.ReadStep(e.Text)
	if !ok {
		return nil
	}
	line := taskStep{Step: told, PID: e.PID, Seq: e.Seq, At: e.At}
	switch line.Kind {
	case "turn":
		s.turns = int64(line.Turn)
		if line.CostUSD != nil {
			line.CostUSD = new(w.spent(*line.CostUSD))
			s.cost = *line.CostUSD
		}
	case "program", "output":
		if line.ProgramPID == 0 {
			line.ProgramPID = e.PID
		}
	case "skill":
		if s.skill != nil {
			s.skill.Code = line.Code
		}
		return nil
	case "end":
		s.reason = line.Reason
		return nil
	case "check", "checked": // nobody here checks
		return nil
	}
	if !s.lines {
		return nil
	}
	return w.a.printJSON(line)
}

// keep saves the program of a task that is done as a skill, as its user has asked.
func (s *steps) keep(a *app, k agentkernel.Kernel, p agentkernel.Process) {
	if s.skill == nil || p.State != agentkernel.StateExited || p.ExitCode != 0 {
		return
	}
	if s.skill.Code == "" {
		s.saved = &savedSkill{Name: s.skill.Name, Error: agentkernel.Errorf(agentkernel.CodeDenied, "skill", "the task has handed over no program, since it may not write to its log").WithHint("leave --deny log out")}
		return
	}
	saved, err := k.SaveSkill(a.ctx, *s.skill)
	s.saved = &savedSkill{Name: s.skill.Name, Version: saved.Version, Functions: saved.Functions}
	if err != nil {
		s.saved = &savedSkill{Name: s.skill.Name, Error: a.ofRunningKernel(asError(err))}
	}
}

// said is what is said of a skill that was kept.
func (s *savedSkill) said() string {
	names := make([]string, len(s.Functions))
	for i, f := range s.Functions {
		names[i], _, _ = strings.Cut(f, "(")
	}
	return "kept as the skill " + s.Name + ", version " + agentkernel.PID(s.Version).String() + " · from skills." + s.Name + " import " + strings.Join(names, ", ")
}

// end is the last line for a task that has ended as r says.
func (w *watch) end(r runResult) taskEnd {
	end := taskEnd{Kind: "end", Turns: w.steps.turns, CostUSD: w.steps.cost, Skill: w.steps.saved, runResult: r}
	if w.k != nil && r.PID != nil {
		if u, err := w.k.ModelUsage(w.a.ctx, agentkernel.UsageQuery{Tree: *r.PID}); err == nil {
			end.Turns, end.Tokens, end.CostUSD = u.Total.Calls, u.Total.Tokens, float64(u.Total.USD)/1e9
		}
	}
	switch done := r.State == string(agentkernel.StateExited) && r.ExitCode == 0; {
	case r.Error != nil:
		end.Reason = r.Error.Message()
	case done:
		end.Reason = "done"
	case w.steps.reason != "" && w.steps.reason != "done" && r.State == string(agentkernel.StateExited):
		end.Reason = w.steps.reason
	default:
		end.Reason = r.State
	}
	return end
}

// maxDescription is how many characters of a task tell what a skill does.
const maxDescription = 200

// description is the first line of a task, as what the skill does that was made for it.
func description(task string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	if runes := []rune(first); len(runes) > maxDescription {
		first = string(runes[:maxDescription]) + " ..."
	}
	return first
}

// readPictures reads the pictures that a model is to be shown.
func readPictures(paths []string) (pictures []agent.Picture, err error) {
	for _, path := range paths {
		data, err := regular.Read(path, agent.MaxImage)
		if errors.Is(err, regular.ErrTooLarge) {
			return nil, agent.TooLarge(path)
		}
		if err != nil {
			return nil, fileError(path, err)
		}
		pictures = append(pictures, agent.Picture{Name: path, Data: data})
	}
	return pictures, agent.CheckPictures(pictures)
}
