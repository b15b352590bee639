// Package skills hands on what a kernel keeps for programs, skills and documents, and puts the skills that a program imports into it.
package skills

import (
	"context"
	"maps"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/lazy"
)

// importable is what an import statement takes for one name.
var importable = lazy.Regexp(`^[a-z_][a-z0-9_]*$`)

// maxSkills bounds how many skills one program may reach, those that its skills import included.
const maxSkills = 100

// Library is a kernel's library.
type Library struct {
	keeper   agentkernel.Library // nil: there is none
	backends backends.List       // that may run the skills
}

// New returns the library that keeper keeps; nil: the kernel has none.
func New(keeper agentkernel.Library, list backends.List) *Library { return &Library{keeper, list} }

func (l *Library) library() (agentkernel.Library, error) {
	if l.keeper == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "library", "this kernel keeps no skills and no state files")
	}
	return l.keeper, nil
}

// SaveSkill keeps a skill if some backend can run it.
func (l *Library) SaveSkill(ctx context.Context, s agentkernel.Skill) (agentkernel.Skill, error) {
	lib, err := l.library()
	if err != nil {
		return s, err
	}
	if importable().MatchString(s.Name) && len(s.Code) <= agentkernel.MaxSkill { // else the library says what is wrong
		probe := importing(&s, s.Code)
		if err := probe.Program.Validate(); err != nil {
			return s, err
		}
		if _, err := l.backends.Choose(&probe); err != nil && l.takesName(&s) {
			return s, err // of the code; what is wrong with the name the library says better
		}
		if err := l.Add(ctx, &probe); err != nil {
			return s, err
		}
	}
	return lib.SaveSkill(ctx, s)
}

// importing is a program that imports a skill and does nothing else.
func importing(s *agentkernel.Skill, code string) agentkernel.Spec {
	return agentkernel.Spec{Namespace: s.Namespace, Program: agentkernel.Program{Name: "import", Language: agentkernel.Python,
		Source: "import skills." + s.Name + "\n", Modules: map[string]string{"skills." + s.Name: code}}}
}

// takesName says whether an import statement can have the name of a skill: that of a skill without code can be read.
func (l *Library) takesName(s *agentkernel.Skill) bool {
	empty := importing(s, "")
	_, err := l.backends.Choose(&empty)
	return agentkernel.CodeOf(err) != agentkernel.CodeSyntax
}

// Skill is one skill with its code.
func (l *Library) Skill(ctx context.Context, namespace, name string, version int) (agentkernel.Skill, error) {
	lib, err := l.library()
	if err != nil {
		return agentkernel.Skill{}, err
	}
	return lib.Skill(ctx, namespace, name, version)
}

// Skills lists skills.
func (l *Library) Skills(ctx context.Context, q agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	lib, err := l.library()
	if err != nil {
		return nil, err
	}
	return lib.Skills(ctx, q)
}

// DeleteSkill deletes a skill.
func (l *Library) DeleteSkill(ctx context.Context, namespace, name string) error {
	lib, err := l.library()
	if err != nil {
		return err
	}
	return lib.DeleteSkill(ctx, namespace, name)
}

// Document is one document.
func (l *Library) Document(ctx context.Context, namespace, owner, name string) (agentkernel.Document, error) {
	lib, err := l.library()
	if err != nil {
		return agentkernel.Document{}, err
	}
	return lib.Document(ctx, namespace, owner, name)
}

// PutDocument replaces a document.
func (l *Library) PutDocument(ctx context.Context, d agentkernel.Document) (agentkernel.Document, error) {
	lib, err := l.library()
	if err != nil {
		return d, err
	}
	return lib.PutDocument(ctx, d)
}

// Add puts the skills that a program imports into it, and those that these import, as they are now:
// the program is pinned, and a skill that is saved again changes no process that exists.
func (l *Library) Add(ctx context.Context, s *agentkernel.Spec) error {
	if !namesSkills(&s.Program) { // most: they are not read twice, nor by a backend that they will not need
		return nil
	}
	for _, b := range l.backends {
		for range maxSkills {
			needs, err := b.Check(s.Program)
			if err != nil || len(needs.Skills) == 0 {
				break // refused: another backend may do, and choose says what is wrong
			}
			lib, err := l.library()
			if err != nil {
				return err
			}
			modules := maps.Clone(s.Program.Modules)
			if modules == nil {
				modules = map[string]string{}
			}
			for _, name := range needs.Skills {
				base, _, _ := strings.Cut(name, ".")
				skill, err := lib.Skill(ctx, s.Namespace, base, 0)
				if err != nil {
					return err
				}
				modules["skills."+base] = skill.Code
			}
			if len(modules) == len(s.Program.Modules) {
				break // skills.a.b of a skill that has no parts: the program's import says so
			}
			s.Program.Modules = modules
		}
	}
	return nil
}

// namesSkills says whether a program could import a skill.
func namesSkills(p *agentkernel.Program) bool {
	if strings.Contains(p.Source, "skills") {
		return true
	}
	for _, source := range p.Modules {
		if strings.Contains(source, "skills") {
			return true
		}
	}
	return false
}
