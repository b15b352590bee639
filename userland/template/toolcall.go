package template

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
)

var identifier = compile(`^[A-Za-z_]\w*$`)

// importable leaves out tools whose names are no Python identifiers: names go into programs as they are.
func importable(tools []agentkernel.Tool) []agentkernel.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t agentkernel.Tool) bool {
		return !identifier.MatchString(t.PythonServer) || !identifier.MatchString(t.PythonName) ||
			slices.ContainsFunc(t.Params, func(p agentkernel.ToolParam) bool { return !identifier.MatchString(p.Python) })
	})
}

var calling = whole(`(?:(?:call|use|run|invoke)(?: the)?(?: tool| function)? )?([\w-]+)\.([\w-]+)(?: tool)?(?: with(?: arguments?| parameters?)?| on| for)?:?((?: .*|\(.*\))?)`)

// namedCall is a call of a tool that the task names: "call everything.get_sum a=2 b=3".
func namedCall(t task, tools []agentkernel.Tool) (*Plan, error) {
	m := t.match(calling)
	if m == nil {
		return nil, nil
	}
	i := slices.IndexFunc(tools, func(x agentkernel.Tool) bool {
		return (x.Server == m[1] || x.PythonServer == m[1]) && (x.Name == m[2] || x.PythonName == m[2])
	})
	if i < 0 {
		return nil, nil
	}
	rest := strings.TrimSpace(m[3])
	if strings.HasPrefix(rest, "(") && strings.HasSuffix(rest, ")") {
		rest = rest[1 : len(rest)-1]
	}
	args, missing, left := fill(tokenize(rest), tools[i])
	switch {
	case len(missing) > 0:
		return nil, missingArguments(tools[i], missing)
	case len(left) > 0:
		return nil, refuse("%s.%s is clear, but not what to do with %q", m[1], m[2], leftover(left))
	}
	return callPlan(tools[i], args)
}

func missingArguments(t agentkernel.Tool, missing []string) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is configured) found the tool %s.%s for this task, but not its argument %s",
		t.Server, t.Name, strings.Join(missing, ", ")).
		WithHint("write %s.%s %s=...; the tool is %s", t.PythonServer, t.PythonName, missing[0], note(t.Signature))
}

func leftover(left []token) string {
	var words []string
	for _, t := range left {
		words = append(words, t.text)
	}
	return note(strings.Join(words, " "))
}

func callPlan(t agentkernel.Tool, args []argument) (*Plan, error) {
	for i, a := range args {
		if p := slices.IndexFunc(t.Params, func(p agentkernel.ToolParam) bool { return p.Python == a.Python }); p >= 0 && t.Params[p].Type == "str" {
			args[i].Value = numbersAsText(a.Value)
		}
	}
	title := fmt.Sprintf("One call of %s.%s", t.Server, t.Name)
	if d := firstSentence(t.Description); d != "" {
		title += ": " + d
	}
	textual := strings.HasSuffix(t.Signature, "-> str")
	return program("tool call", "toolcall.py", title, map[string]any{"Tool": t, "Arguments": args, "JSON": !textual}, t)
}

func firstSentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if i := strings.Index(s, ". "); i > 0 {
		s = s[:i]
	}
	return strings.TrimSuffix(s, ".")
}

// candidate is a tool that covers a task: all of its words, with all required arguments found.
type candidate struct {
	tool  agentkernel.Tool
	args  []argument
	score int
}

// toolCall finds the one tool whose name and description account for the task, arguments included.
func toolCall(t task, tools []agentkernel.Tool) (*Plan, error) {
	var found []candidate
	var incomplete error
	all := tokenize(t.text)
	for _, x := range tools {
		tokens, score := recognise(all, x)
		if score == 0 {
			continue
		}
		args, missing, left := fill(tokens, x)
		switch {
		case len(left) > 0:
		case len(missing) > 0:
			incomplete = missingArguments(x, missing)
		default:
			found = append(found, candidate{x, args, score})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return b.score - a.score })
	switch {
	case len(found) == 0:
		return nil, incomplete
	case len(found) > 1 && found[0].score == found[1].score:
		a, b := found[0].tool, found[1].tool
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is configured) finds two tools for this task: %s.%s and %s.%s",
			a.Server, a.Name, b.Server, b.Name).WithHint("name one: call %s.%s ...", a.PythonServer, a.PythonName)
	}
	return callPlan(found[0].tool, found[0].args)
}

// recognise marks the words of a task that speak of the tool. score is 0 if the task is not about it: each
// meaningful word of the tool's name must be there; it grows with what matches.
func recognise(all []token, x agentkernel.Tool) (tokens []token, score int) {
	tokens = slices.Clone(all)
	name := terms(x.Name)
	meaning := slices.DeleteFunc(slices.Clone(name), func(w string) bool { return verbs()[w] || fillers()[w] })
	if len(meaning) == 0 || x.Effect != agentkernel.EffectRead {
		meaning = name // what changes things has to be asked for in so many words
	}
	about := map[string]bool{}
	for _, w := range terms(x.Title + " " + x.Description) {
		about[w] = true
	}
	seen := map[string]bool{}
	for i := range tokens {
		if tokens[i].kind != word || i > 0 && tokens[i].assigned {
			continue
		}
		for _, w := range terms(tokens[i].text) {
			seen[w] = true
			if slices.Contains(name, w) {
				tokens[i].used = true
				score += 4
			} else if server := terms(x.Server); slices.Contains(server, w) && !connectives()[w] {
				tokens[i].used = true
				score++
			}
		}
	}
	for _, w := range meaning {
		if !seen[w] {
			return nil, 0
		}
	}
	if fallsShort(name, seen) {
		score--
	}
	markVerb(tokens, about)
	return tokens, score
}

// fallsShort says whether a part of the name, its verb, is not in the task.
func fallsShort(name []string, seen map[string]bool) bool {
	return slices.ContainsFunc(name, func(w string) bool { return !seen[w] })
}

// markVerb takes the first word of the task as said if the tool's description says it too: "add 2 and 3".
func markVerb(tokens []token, about map[string]bool) {
	if len(tokens) == 0 || tokens[0].kind != word || tokens[0].used {
		return
	}
	for _, w := range terms(tokens[0].text) {
		if about[w] {
			tokens[0].used = true
		}
	}
}
