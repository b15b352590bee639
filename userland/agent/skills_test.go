package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/userland/agent"
)

// The model is told of the skills of the namespace, those that fit the task first, and of no other; code that is long is left out.
func TestSkills(t *testing.T) {
	r := newRig(t, `
rules:
  - when: {tools: [run_python]}
    answer: {error: {status: 400, message: gpt-dev does not support tools}}
  - when: {turn: 1, system: '/Skills: (.|\n)*from skills.zebra import stripes  # Counts the stripes of zebras\nfrom skills.apple import peel\nfrom skills.long import first, second\n/'}
    answer: {text: "READ zebra"}
  - when: {turn: 2, user: "return 40 + n"}
    answer: {text: "READ long"}
  - when: {turn: 3, user: "too long to be shown; its functions: first(a), second(b=1)"}
    answer: {text: "READ hidden"}
  - when: {turn: 4, user: "there is no skill hidden: there are zebra, apple, long"}
    answer: {text: "`+"```"+`python\nfrom skills.zebra import stripes\nprint(stripes(2))\n`+"```"+`"}
  - when: {turn: 5, user: '/printed:\n42/'}
    answer: {text: "FINAL: 42"}
default: {error: {status: 400, message: this was not to be shown}}`)
	for _, s := range []agentkernel.Skill{
		{Name: "apple", Code: "def peel():\n    pass\n"},
		{Name: "zebra", Code: "def stripes(n):\n    return 40 + n\n", Description: "Counts the stripes\n of zebras"},
		{Name: "long", Code: "def first(a):\n    pass\ndef second(b=1):\n    pass\n" + strings.Repeat("# more\n", 10_000)},
		{Name: "hidden", Code: "def f():\n    pass\n", Namespace: "other"},
	} {
		if _, err := r.kernel.SaveSkill(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	skills, err := agent.SkillsFor(t.Context(), r.kernel, "", "how many stripes do two zebras have")
	if err != nil {
		t.Fatal(err)
	}
	if _, stdout, stderr := r.do(agent.Task{Text: "how many stripes do two zebras have", Skills: skills}, nil); stdout != "42\n" {
		t.Errorf("%q\n%s", stdout, stderr)
	}
	for i := range 60 {
		if _, err := r.kernel.SaveSkill(t.Context(), agentkernel.Skill{Name: fmt.Sprintf("more_%d", i), Code: "def f():\n    pass\n"}); err != nil {
			t.Fatal(err)
		}
	}
	if skills, err = agent.SkillsFor(t.Context(), r.kernel, "", "zebras"); err != nil || len(skills) != 50 || skills[0].Name != "zebra" {
		t.Errorf("%d skills, the first %+v: %v", len(skills), skills[0], err)
	}
}

// Steps are told in the log where they are wanted, and a task that may not write to it is done all the same. The program that is to be kept is the
// last one that ended well and has a function.
func TestSteps(t *testing.T) {
	const script = `
rules:
  - when: {turn: 1}
    answer: {text: I define it., calls: [{name: run_python, arguments: {code: "def f():\n    return 42\nprint(f())"}}]}
  - when: {turn: 2}
    answer: {calls: [{name: run_python, arguments: {code: "def g(): return 1 / 0\ng()"}}]}
  - when: {turn: 3}
    answer: {calls: [{name: run_python, arguments: {code: "print('no function')"}}]}
  - when: {turn: 4}
    answer: {calls: [{name: finish, arguments: {result: 42}}]}`
	for name, c := range map[string]struct {
		task agent.Task
		deny []string
		want string
	}{
		"all":     {task: agent.Task{Steps: true}, want: "turn program output turn program output turn program output turn result end"},
		"none":    {want: ""},
		"denied":  {task: agent.Task{Steps: true}, deny: []string{"log"}, want: ""},
		"a skill": {task: agent.Task{Save: "kept"}, want: "skill"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, script)
			c.task.Text = "tell"
			_, stdout, stderr := r.do(c.task, func(s *agentkernel.Spec) { s.Deny = c.deny })
			var kinds []string
			for _, e := range r.events {
				step, ok := agent.ReadStep(e.Text)
				if e.Kind != agentkernel.EventLog || !ok {
					continue
				}
				kinds = append(kinds, step.Kind)
				if step.Kind == "skill" && step.Code != "def f():\n    return 42\nprint(f())" {
					t.Errorf("it keeps %q", step.Code)
				}
			}
			if got := strings.Join(kinds, " "); got != c.want || stdout != "42\n" {
				t.Errorf("the steps are %q, want %q; it printed %q\n%s", got, c.want, stdout, stderr)
			}
		})
	}
}
