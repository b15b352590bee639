package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentkernel"
)

func (h *server) stateTools() []*definition {
	return []*definition{
		handle(&definition{name: "get_state", reads: true, say: "Read a saved state file."}, getState),
		handle(&definition{name: "save_state", destroys: true, again: true,
			say: "Save JSON under a name, in one step."}, saveState),
	}
}

const defaultState = "state.json"

type getStateInput struct {
	StateFile string `json:"state_file,omitempty" say:"default state.json"`
}

type stateOutput struct {
	State     json.RawMessage `json:"state"`
	StateFile string          `json:"state_file"`
	Version   int64           `json:"version"`
	Exists    bool            `json:"exists"`
	Note      string          `json:"note,omitempty"`
}

func getState(ctx context.Context, c *call, in getStateInput) (*stateOutput, error) {
	name := orDefault(in.StateFile, defaultState)
	d, err := c.documents().Document(ctx, c.h.cfg.Spec.Namespace, c.client.user, name)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		return &stateOutput{State: json.RawMessage(`{}`), StateFile: name}, nil
	case err != nil:
		return nil, err
	}
	out := &stateOutput{State: d.Data, StateFile: name, Version: d.Version, Exists: true}
	if len(d.Data) > maxPage {
		out.State = json.RawMessage("null")
		out.Note = fmt.Sprintf("the state has %d bytes and is left out here. The whole, page by page: %s%s; keep large data in several state files", len(d.Data), statePrefix, name)
	}
	return out, nil
}

type saveStateInput struct {
	StateData json.RawMessage `json:"state_data"`
	StateFile string          `json:"state_file,omitempty"`
	Version   int64           `json:"version,omitempty" say:"only if it is at this version"`
}

type savedOutput struct {
	StateFile string `json:"state_file"`
	Version   int64  `json:"version"`
}

func saveState(ctx context.Context, c *call, in saveStateInput) (*savedOutput, error) {
	d, err := c.documents().PutDocument(ctx, agentkernel.Document{Namespace: c.h.cfg.Spec.Namespace, Owner: c.client.user,
		Name: orDefault(in.StateFile, defaultState), Data: in.StateData, Version: in.Version})
	if err != nil {
		return nil, err
	}
	return &savedOutput{d.Name, d.Version}, nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (h *server) skillTools() []*definition {
	return []*definition{
		handle(&definition{name: "save_skill",
			say: "Save Python functions: from skills.NAME import FUNCTION. Checked first; versioned."}, saveSkill),
		handle(&definition{name: "get_skill", reads: true, say: "Code of a skill."}, getSkill),
		handle(&definition{name: "list_skills", reads: true, say: "All skills."}, listSkills),
		handle(&definition{name: "search_skills", reads: true, say: "Find skills by words."}, searchSkills),
		handle(&definition{name: "delete_skill", destroys: true, say: "Delete a skill."}, deleteSkill),
	}
}

type saveSkillInput struct {
	Name        string   `json:"name"`
	Code        string   `json:"code"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

type skillOutput struct {
	Name        string   `json:"name"`
	Version     int      `json:"version"`
	Import      string   `json:"import"`
	Functions   []string `json:"functions"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Code        string   `json:"code,omitempty"`
}

func skill(s *agentkernel.Skill) *skillOutput {
	out := &skillOutput{Name: s.Name, Version: s.Version, Functions: s.Functions, Description: s.Description, Tags: s.Tags, Code: s.Code}
	names := make([]string, 0, len(s.Functions))
	for _, f := range s.Functions {
		name, _, _ := strings.Cut(f, "(")
		names = append(names, name)
	}
	out.Import = fmt.Sprintf("from skills.%s import %s", s.Name, strings.Join(names, ", "))
	return out
}

func (s *skillOutput) text() string {
	text := s.Import + "  # version " + fmt.Sprint(s.Version)
	if s.Description != "" {
		text += ", " + s.Description
	}
	if s.Code != "" {
		text += "\n\n" + s.Code
	} else {
		text += "\n  " + strings.Join(s.Functions, "\n  ")
	}
	return text + "\n"
}

func saveSkill(ctx context.Context, c *call, in saveSkillInput) (*skillOutput, error) {
	s, err := c.kernel().SaveSkill(ctx, agentkernel.Skill{Namespace: c.namespace(), Name: in.Name, Code: unwrapped(in.Code), Description: in.Description, Tags: in.Tags})
	if err != nil {
		return nil, err
	}
	s.Code = ""
	return skill(&s), nil
}

type skillName struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty"`
}

func getSkill(ctx context.Context, c *call, in skillName) (*skillOutput, error) {
	s, err := c.kernel().Skill(ctx, c.namespace(), in.Name, in.Version)
	if err != nil {
		return nil, err
	}
	return skill(&s), nil
}

type skillList struct {
	Skills []*skillOutput `json:"skills"`
}

func (l *skillList) text() string {
	if len(l.Skills) == 0 {
		return "no skills"
	}
	var b strings.Builder
	for _, s := range l.Skills {
		b.WriteString(s.text())
	}
	return b.String()
}

func listSkills(ctx context.Context, c *call, _ nothing) (*skillList, error) {
	return c.skills(ctx, agentkernel.SkillQuery{Namespace: c.namespace()})
}

type skillSearch struct {
	Query string `json:"query"`
}

func searchSkills(ctx context.Context, c *call, in skillSearch) (*skillList, error) {
	return c.skills(ctx, agentkernel.SkillQuery{Namespace: c.namespace(), Text: in.Query, Limit: 20})
}

func (c *call) skills(ctx context.Context, q agentkernel.SkillQuery) (*skillList, error) {
	all, err := c.kernel().Skills(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &skillList{Skills: []*skillOutput{}}
	for i := range all {
		out.Skills = append(out.Skills, skill(&all[i]))
	}
	return out, nil
}

type deleteInput struct {
	Name string `json:"name"`
}

type deleted struct {
	Deleted string `json:"deleted"`
}

func deleteSkill(ctx context.Context, c *call, in deleteInput) (*deleted, error) {
	if err := c.kernel().DeleteSkill(ctx, c.namespace(), in.Name); err != nil {
		return nil, err
	}
	return &deleted{in.Name}, nil
}

func (h *server) versionTools() []*definition {
	return []*definition{
		handle(&definition{name: "get_version", reads: true, say: "Versions and backends."}, getVersion),
	}
}

type versionOutput struct {
	Version  string   `json:"version"`
	Kernel   string   `json:"kernel"`
	Backends []string `json:"backends"`
}

func getVersion(ctx context.Context, c *call, _ nothing) (*versionOutput, error) {
	info, err := c.kernel().Info(ctx)
	if err != nil {
		return nil, err
	}
	out := &versionOutput{Version: c.h.cfg.Version, Kernel: info.Version, Backends: []string{}}
	for _, b := range info.Backends {
		if b.Available {
			out.Backends = append(out.Backends, b.Name)
		}
	}
	return out, nil
}
