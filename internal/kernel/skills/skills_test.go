package skills_test

import (
	"context"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/skills"
)

// keeper has no skills, and a rule for names.
type keeper struct{ agentkernel.Library }

func (keeper) Skill(_ context.Context, _, name string, _ int) (agentkernel.Skill, error) {
	return agentkernel.Skill{}, agentkernel.Errorf(agentkernel.CodeNotFound, "skill", "there is no skill %q", name)
}

func (keeper) SaveSkill(_ context.Context, s agentkernel.Skill) (agentkernel.Skill, error) {
	return s, agentkernel.Errorf(agentkernel.CodeInvalid, "skill", "%q cannot be the name of a skill", s.Name)
}

// What is wrong with the name of a skill that is saved, the library says, and not the import that tries its code.
func TestANameThatCannotBeImported(t *testing.T) {
	l := skills.New(keeper{}, nil)
	for _, name := range []string{"monthly report", "bad-name", "9x", "a.b", "Report", "", "a\nb"} {
		if _, err := l.SaveSkill(t.Context(), agentkernel.Skill{Name: name, Code: "def f(): pass"}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
