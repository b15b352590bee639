package library

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/lazy"
)

const opSkill = "skill"

// keptVersions is how many versions of a skill are kept; older ones go.
const keptVersions = 50

// Bounds of what is said of a skill.
const (
	maxDescription = 4 << 10
	maxTags        = 32
	maxTag         = 64
)

// identifier are the names that skills can have: lower case, so that two are never one file.
var identifier = lazy.Regexp(`^[a-z_][a-z0-9_]{0,63}$`)

// definition finds the functions at the top of a module, up to the end of their parameters.
var definition = lazy.Regexp(`(?m)^(?:async )?def ([A-Za-z_][A-Za-z0-9_]*)\(`)

func (l *Library) skillDir(namespace, name string) string {
	return filepath.Join(l.dir, "skills", fileName(namespace, "default"), name)
}

// SaveSkill keeps a new version. The caller has checked that the code parses.
func (l *Library) SaveSkill(_ context.Context, s agentkernel.Skill) (agentkernel.Skill, error) {
	if err := validSkill(&s); err != nil {
		return s, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dir := l.skillDir(s.Namespace, s.Name)
	have, err := readSkill(dir)
	if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound && agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		return s, err
	}
	s.Functions = Functions(s.Code)
	s.Updated = l.instant()
	if s.Created = have.Created; s.Created.IsZero() {
		s.Created = s.Updated
	}
	s.Version = have.Version + 1
	for taken(dir, s.Version) { // the record was lost: never write over a version
		s.Version++
	}
	if err := replace(codeFile(dir, s.Version), []byte(s.Code)); err != nil {
		return s, err
	}
	record := s
	record.Code = ""
	raw, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return s, agentkernel.AsError(err, agentkernel.CodeInternal, opSkill)
	}
	if err := replace(filepath.Join(dir, "skill.json"), append(raw, '\n')); err != nil {
		return s, err
	}
	_ = os.Remove(codeFile(dir, s.Version-keptVersions)) // usually not there
	return s, nil
}

func codeFile(dir string, version int) string {
	return filepath.Join(dir, fmt.Sprintf("v%d.py", version))
}

func taken(dir string, version int) bool {
	_, err := os.Lstat(codeFile(dir, version))
	return err == nil
}

// validSkill says what is wrong with a skill apart from its code's syntax.
func validSkill(s *agentkernel.Skill) error {
	bad := func(format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, opSkill, format, args...)
	}
	if err := agentkernel.CheckSkillName(s.Name); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(s.Code) == "":
		return bad("the code of skill %s is empty", s.Name)
	case len(s.Code) > agentkernel.MaxSkill:
		return bad("the code of skill %s is %d bytes long; the limit is %d", s.Name, len(s.Code), agentkernel.MaxSkill)
	case !utf8.ValidString(s.Code) || !utf8.ValidString(s.Description):
		return bad("skill %s is not valid UTF-8", s.Name)
	case len(s.Description) > maxDescription:
		return bad("the description of skill %s is %d bytes long; the limit is %d", s.Name, len(s.Description), maxDescription)
	case len(s.Tags) > maxTags:
		return bad("skill %s has %d tags; the limit is %d", s.Name, len(s.Tags), maxTags)
	case len(Functions(s.Code)) == 0:
		return bad("skill %s defines no function at its top level", s.Name).WithHint("put what programs should call into a def")
	}
	for i, tag := range s.Tags {
		s.Tags[i] = strings.TrimSpace(tag)
		if s.Tags[i] == "" || len(tag) > maxTag || !utf8.ValidString(tag) {
			return bad("%.80q cannot be a tag of a skill", tag)
		}
	}
	slices.Sort(s.Tags)
	s.Tags = slices.Compact(s.Tags)
	return nil
}

// Functions gives the signatures of a module's public functions: "monthly(rows, year=None)".
func Functions(code string) []string {
	const most = 100
	var out []string
	for _, m := range definition().FindAllStringSubmatchIndex(code, most) {
		name := code[m[2]:m[3]]
		if strings.HasPrefix(name, "_") {
			continue
		}
		depth, end := 0, len(code)
		for i := m[1] - 1; i < len(code); i++ {
			switch code[i] {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth--
			}
			if depth == 0 {
				end = i + 1
				break
			}
		}
		out = append(out, name+strings.Join(strings.Fields(code[m[3]:end]), " "))
	}
	return out
}

// Skill is one skill with its code.
func (l *Library) Skill(_ context.Context, namespace, name string, version int) (agentkernel.Skill, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !identifier().MatchString(name) {
		return agentkernel.Skill{}, l.noSkill(namespace, name)
	}
	dir := l.skillDir(namespace, name)
	s, err := readSkill(dir)
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		return s, l.noSkill(namespace, name)
	}
	if err != nil {
		return s, err
	}
	if version == 0 {
		version = s.Version
	}
	code, err := os.ReadFile(codeFile(dir, version))
	switch {
	case missing(err):
		return s, agentkernel.Errorf(agentkernel.CodeNotFound, opSkill, "skill %s has no version %d; the newest is %d", name, version, s.Version)
	case err != nil:
		return s, storage(codeFile(dir, version), err)
	}
	s.Namespace, s.Version, s.Code = namespace, version, string(code)
	s.Functions = Functions(s.Code)
	return s, nil
}

func readSkill(dir string) (s agentkernel.Skill, err error) {
	path := filepath.Join(dir, "skill.json")
	raw, err := os.ReadFile(path)
	switch {
	case missing(err):
		return s, agentkernel.Errorf(agentkernel.CodeNotFound, opSkill, "there is no skill %s", filepath.Base(dir))
	case err != nil:
		return s, storage(path, err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, agentkernel.Errorf(agentkernel.CodeCorrupt, opSkill, "the file of skill %s is damaged: %w", filepath.Base(dir), err).
			WithHint("save the skill again, or mend %s", path)
	}
	s.Name = filepath.Base(dir)
	return s, nil
}

// noSkill names what there is instead.
func (l *Library) noSkill(namespace, name string) error {
	e := agentkernel.Errorf(agentkernel.CodeNotFound, opSkill, "there is no skill %.80q", name)
	var names []string
	for _, s := range l.all(namespace) {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return e.WithHint("there are no skills")
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(unlike(a, name), unlike(b, name)) })
	return e.WithHint("there are: %s", strings.Join(names[:min(len(names), 5)], ", "))
}

// unlike is small for names that share a beginning.
func unlike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return len(a) + len(b) - 2*n
}

// all lists the skills of a namespace by name; damaged ones are left out.
func (l *Library) all(namespace string) []agentkernel.Skill {
	entries, err := os.ReadDir(filepath.Join(l.dir, "skills", fileName(namespace, "default")))
	if err != nil {
		return nil
	}
	var out []agentkernel.Skill
	for _, e := range entries {
		if !identifier().MatchString(e.Name()) {
			continue
		}
		if s, err := readSkill(l.skillDir(namespace, e.Name())); err == nil {
			s.Namespace = namespace
			out = append(out, s)
		}
	}
	return out
}

// Skills lists skills.
func (l *Library) Skills(_ context.Context, q agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	if q.Limit < 0 {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, opSkill, "the limit %d is negative", q.Limit)
	}
	l.mu.RLock()
	list := l.all(q.Namespace)
	l.mu.RUnlock()
	if strings.TrimSpace(q.Text) != "" {
		list = rank(list, q.Text)
	}
	if q.Limit > 0 {
		list = list[:min(len(list), q.Limit)]
	}
	return list, nil
}

// rank keeps the skills that have a word of the query, most words first. A library holds tens of skills, not
// thousands; tools have an index of their own.
func rank(list []agentkernel.Skill, query string) []agentkernel.Skill {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !wordRune(r) })
	score := map[string]int{}
	for _, s := range list {
		name := strings.ToLower(s.Name + " " + strings.Join(s.Tags, " "))
		rest := strings.ToLower(s.Description + " " + strings.Join(s.Functions, " "))
		for _, w := range words {
			if stem := strings.TrimSuffix(w, "s"); len(stem) > 1 {
				if strings.Contains(name, stem) {
					score[s.Name] += 3
				}
				if strings.Contains(rest, stem) {
					score[s.Name]++
				}
			}
		}
	}
	list = slices.DeleteFunc(list, func(s agentkernel.Skill) bool { return score[s.Name] == 0 })
	slices.SortStableFunc(list, func(a, b agentkernel.Skill) int { return cmp.Compare(score[b.Name], score[a.Name]) })
	return list
}

func wordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= utf8.RuneSelf
}

// DeleteSkill deletes a skill.
func (l *Library) DeleteSkill(_ context.Context, namespace, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir := l.skillDir(namespace, name)
	if !identifier().MatchString(name) {
		return l.noSkill(namespace, name)
	}
	if _, err := os.Lstat(dir); err != nil {
		return l.noSkill(namespace, name)
	}
	// First out of sight in one step, then away.
	gone, err := os.MkdirTemp(filepath.Dir(dir), ".gone-*")
	if err == nil {
		err = os.Rename(dir, filepath.Join(gone, name))
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return storage(dir, err)
	}
	return nil
}
