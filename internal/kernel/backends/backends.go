// Package backends chooses the backend that runs a program, and says why one does not.
package backends

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// Backend is a backend with what it says of itself, asked once: Info may look at the disk.
type Backend struct {
	agentkernel.Backend
	agentkernel.BackendInfo
}

// Now is what the backend says of itself; one that was not available when the kernel started may be by now.
func (b *Backend) Now() agentkernel.BackendInfo {
	if b.Available {
		return b.BackendInfo
	}
	return b.Info()
}

// List is the backends of a kernel, in the order of choice.
type List []*Backend

// New asks each backend what it is.
func New(all []agentkernel.Backend) List {
	var l List
	for _, b := range all {
		l = append(l, &Backend{Backend: b, BackendInfo: b.Info()})
	}
	return l
}

// Find returns the backend with a name; nil: there is none.
func (l List) Find(name string) *Backend {
	for _, b := range l {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Behind returns those behind b in the order of choice.
func (l List) Behind(b *Backend) List { return l[slices.Index(l, b)+1:] }

// Auto is the name in a Spec by which the choice is left to the kernel.
const Auto = "auto"

// Choose finds the backend: the one that is named, or the first that accepts the program and runs it as its
// language's own runtime does, or the first that accepts it.
func (l List) Choose(s *agentkernel.Spec) (*Backend, error) {
	if err := l.unreached(s); err != nil {
		return nil, err
	}
	if s.Backend != "" && s.Backend != Auto {
		return l.named(s)
	}
	s.Backend = Auto // what was asked for stays in the Spec: children ask for the same, and the program may move
	var refused error
	var differing *Backend
	for _, b := range l {
		if !b.Speaks(s.Program.Language) || b.Lacks(s) != nil || !b.Offered(s) {
			continue
		}
		switch needs, err := b.Takes(s); {
		case err != nil && refused == nil:
			refused = err
			if !Elsewhere(err) {
				return nil, err
			}
		case agentkernel.CodeOf(err) == agentkernel.CodeSyntax:
			return nil, err // what the first lacks is no reason: the program cannot be read
		case err != nil:
			refused = BothRefused(refused, b.Name, err)
		case len(needs.Differs) == 0:
			return b, nil
		case differing == nil:
			differing = b
		}
	}
	switch {
	case differing != nil:
		return differing, nil
	case refused != nil:
		return nil, refused
	case s.NeedsFiles():
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "no backend here gives programs folders or a standard input; there are: %s", strings.Join(l.Names(), ", ")).
			WithHint(advice.Doctor)
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "no backend here runs programs in the language %s; there are: %s", s.Program.Language, strings.Join(l.Names(), ", "))
}

// named finds the backend that the Spec names, if it can run the program.
func (l List) named(s *agentkernel.Spec) (*Backend, error) {
	for _, b := range l {
		if b.Name != s.Backend {
			continue
		}
		if err := b.Lacks(s); err != nil {
			return nil, err
		}
		if !b.Speaks(s.Program.Language) {
			return nil, doesNotSpeak(b.Name, s.Program.Language)
		}
		_, err := b.Takes(s)
		return b, err
	}
	return nil, l.Unknown(s.Backend)
}

// Unknown is the error for a name that no backend has.
func (l List) Unknown(name string) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "there is no backend %q; there are: %s", name, strings.Join(l.Names(), ", "))
}

// Lacks says what a Spec asks for that the backend does not have.
func (b *Backend) Lacks(s *agentkernel.Spec) *agentkernel.Error {
	if !b.Isolation.Reaches(s.Isolation) {
		return tooWeak(b, s.Isolation)
	}
	return withoutFiles(b, s)
}

// Offered says whether a program may come to the backend without naming it: none without a boundary is chosen, or even
// spoken of, unless that was asked for.
func (b *Backend) Offered(s *agentkernel.Spec) bool {
	return b.Isolation != agentkernel.IsolationNone || s.Isolation == agentkernel.IsolationNone && b.Now().Available
}

// Names are those of the backends that may be spoken of.
func (l List) Names() []string {
	names := make([]string, 0, len(l))
	for _, b := range l {
		if b.Isolation != agentkernel.IsolationNone { // that one is asked for with --isolation none, never by a slip of the pen
			names = append(names, b.Name)
		}
	}
	return names
}

// Next finds the backend that may go on with a program which has failed on another one, always one behind that in the order
// of choice. nil: there is none; why is what the user can do about it, if the backend is surely what the program failed for.
func (l List) Next(s *agentkernel.Spec, from *Backend, turn agentkernel.Turn) (to *Backend, why string) {
	chosen, certain := s.Backend == Auto, turn.Fault == agentkernel.FaultBackend
	if !chosen && !certain {
		return nil, ""
	}
	for _, b := range l.Behind(from) {
		if !b.Speaks(s.Program.Language) || !b.Replayable || !b.Offered(s) {
			continue
		}
		err := b.refuses(s)
		switch {
		case err == nil && chosen:
			return b, ""
		case err == nil:
			return nil, fmt.Sprintf(advice.WithoutBackend, from.Name, b.Name, from.Name)
		case err.Code == agentkernel.CodeSyntax:
			return nil, "" // it is no program, wherever it runs
		case turn.Err.Code == agentkernel.CodeSyntax:
			// What cannot be read is the program's doing, as far as anybody here can tell.
		case certain && why == "":
			why = fmt.Sprintf("the %s backend cannot go on with it: %s", b.Name, err.Message())
			if err.Hint != "" {
				why += "; " + err.Hint
			}
		}
	}
	return nil, why
}

// refuses says why the backend does not run a program; nil: it does.
func (b *Backend) refuses(s *agentkernel.Spec) *agentkernel.Error {
	if err := b.Lacks(s); err != nil {
		return err
	}
	if _, err := b.Takes(s); err != nil {
		return agentkernel.AsError(err, agentkernel.CodeUnsupported, "move")
	}
	return nil
}

// Elsewhere says whether another backend may run a program that one refused.
func Elsewhere(err error) bool {
	code := agentkernel.CodeOf(err)
	return code == agentkernel.CodeUnsupported || code == agentkernel.CodeUnavailable
}

// BothRefused is the answer where two backends refuse a program: what to mend is what the next one says, which has all of the
// language. The first refusal stays where it is the author's own doing, and with it the advice of what to use instead.
func BothRefused(first error, name string, next error) error {
	e := agentkernel.AsError(first, agentkernel.CodeUnsupported, "spec")
	why := agentkernel.AsError(next, agentkernel.CodeUnsupported, "spec")
	switch {
	case e.Code == agentkernel.CodeUnavailable && why.Code == agentkernel.CodeUnavailable: // nothing runs here
		both := agentkernel.Errorf(e.Code, e.Op, "%s, and %s", e.Message(), why.Message())
		both.Hint = e.Hint
		if why.Hint != "" {
			both.Hint = strings.TrimPrefix(e.Hint+"; or "+why.Hint, "; or ")
		}
		return both
	case why.Code == agentkernel.CodeUnavailable: // it would run there: what is missing is what to mend
		both := agentkernel.Errorf(why.Code, why.Op, "%s, but the %s backend is not available: %s", e.Message(), name, why.Message())
		both.Hint = why.Hint
		return both
	case why.Code == agentkernel.CodeUnsupported && e.Code == agentkernel.CodeUnsupported:
		if e.Hint != "" {
			return why.WithHint("%s", e.Hint)
		}
		return why
	case e.Hint != "":
		return e
	}
	hint := fmt.Sprintf("the %s backend refuses it too: %s", name, why.Message())
	if why.Hint != "" {
		hint += "; " + why.Hint
	}
	return e.WithHint("%s", hint)
}

// Takes is Check, and refuses a session where the backend keeps none.
func (b *Backend) Takes(s *agentkernel.Spec) (agentkernel.Needs, error) {
	if s.Program.Session && !b.Sessions {
		return agentkernel.Needs{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "the %s backend keeps no sessions", b.Name).
			WithHint("run each cell as a program of its own")
	}
	return b.Check(s.Program)
}

// Speaks says whether the backend runs programs of a language.
func (b *Backend) Speaks(l agentkernel.Language) bool {
	if len(b.Languages) == 0 {
		return l.Replayable()
	}
	for _, known := range b.Languages {
		if known == l {
			return true
		}
	}
	return false
}

func doesNotSpeak(name string, l agentkernel.Language) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "the %s backend runs no programs in the language %s", name, l)
}

// RunsAgain says whether a program in this language does the same here when it runs again.
func (b *Backend) RunsAgain(l agentkernel.Language) bool { return b.Replayable && l.Replayable() }

// withoutFiles says that a backend cannot show a program the folders of its Spec.
func withoutFiles(b *Backend, s *agentkernel.Spec) *agentkernel.Error {
	switch {
	case b.Files || !s.NeedsFiles():
		return nil
	case !s.HasFiles():
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "the %s backend gives programs no standard input", b.Name).
			WithHint(advice.OtherBackend)
	}
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "the %s backend shows programs no folders", b.Name).
		WithHint(advice.OtherBackend)
}
