package template

import (
	"embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"

	"agentkernel"
)

//go:embed programs/*.py
var programs embed.FS

// program fills in one of the texts of programs/ and makes the plan. In the texts {{py .X}} is a Python
// literal and {{note .X}} a text for a comment; nothing else of a task gets in.
func program(recipe, file, title string, data any, used ...agentkernel.Tool) (*Plan, error) {
	t, err := texttemplate.New(file).Funcs(texttemplate.FuncMap{"py": literal, "note": note}).ParseFS(programs, "programs/"+file, "programs/parts.py")
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "the recipe %s cannot be read: %w", file, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "the recipe %s cannot be filled in: %w", file, err)
	}
	plan := &Plan{Mode: Mode, Recipe: recipe, Title: note(title), Tools: []string{}, NeedsAllow: []string{}}
	plan.Program = agentkernel.Program{Name: file, Language: agentkernel.Python, Source: "# " + plan.Title + "\n" + tidy(b.String())}
	for _, tool := range used {
		name := tool.Server + "." + tool.Name
		if slices.Contains(plan.Tools, name) {
			continue
		}
		plan.Tools = append(plan.Tools, name)
		if tool.Effect != agentkernel.EffectRead {
			plan.NeedsAllow = append(plan.NeedsAllow, name)
		}
	}
	return plan, nil
}

// tidy leaves at most two empty lines in a row, and one newline at the end.
func tidy(source string) string {
	for strings.Contains(source, "\n\n\n\n") {
		source = strings.ReplaceAll(source, "\n\n\n\n", "\n\n\n")
	}
	return strings.Trim(source, "\n") + "\n"
}

// maxNote is how much of a text a comment repeats.
const maxNote = 160

// note is a text that can stand in a comment: one line of printable characters, not too long.
func note(s string) string {
	s = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxNote {
		s = string(r[:maxNote-1]) + "…"
	}
	return strings.TrimSpace(s)
}

// literal is a value as Python source. Texts are quoted as JSON, which Python reads alike; numbers of a task
// come as json.Number and stay as they were written.
func literal(v any) string {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case json.Number:
		return v.String()
	case string:
		return quote(v)
	case []json.Number:
		return list(v)
	}
	return quote("") // no other type is ever made; a wrong one must not become source
}

func list[T any](items []T) string {
	parts := make([]string, len(items))
	for i, it := range items {
		parts[i] = literal(it)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
