package template

import (
	"path"
	"strings"

	"agentkernel"
)

// dataFile finds the path of a CSV or JSON file in a task, bare or in quotes.
var dataFile = compile(`(?i)"[^"]+\.(?:csv|tsv|jsonl?|ndjson)"|'[^']+\.(?:csv|tsv|jsonl?|ndjson)'|[^\s"'` + "`" + `,;()]+\.(?:csv|tsv|jsonl?|ndjson)\b`)

// here stands for the file in the patterns below.
const here = "@"

// inFile is the file at the end of a question.
const inFile = ` (?:in|from|of)(?: the)?(?: data| file| table)? ` + here

const (
	column = `(?:the )?([\pL_][\pL\pN_ .%-]*?)(?: columns?| fields?| values?)?`
	per    = ` (?:by|per|for each|grouped by) `
	period = `(daily|monthly|yearly|annual)`
)

// question is what a task asks of a table.
type question struct {
	kind         string // an aggregate of `reductions`, "" for a summary
	value, group string
	period       string // day, month, year: the group is a part of a date
}

// A form of question: a pattern over the task with the file as @, and how to read its groups.
type form struct {
	re   *pattern
	read func(m []string) question
}

var forms = []form{
	{whole(`(?:process|analy[sz]e|summari[sz]e|describe|(?:a |the )?summary of)(?: the)?(?: csv| json)?(?: file)? ` + here), func([]string) question { return question{} }},
	{whole(ask + `(?:the )?` + measure + `(?: of)? ` + column + per + column + inFile), func(m []string) question {
		return question{kind: reductions[strings.ToLower(m[1])], value: m[2], group: m[3]}
	}},
	{whole(ask + `(?:the )?` + measure + `(?: of)? ` + column + inFile), func(m []string) question {
		return question{kind: reductions[strings.ToLower(m[1])], value: m[2]}
	}},
	{whole(`(?:process|analy[sz]e|read) ` + here + ` and (?:generate|create|make|show)(?: a| the)? ` + period + ` ` + column + `(?: report| totals?)?`), periodic},
	{whole(ask + `(?:the |a )?` + period + `(?: total)? ` + column + `(?: report| totals?)?` + inFile), periodic},
}

func periodic(m []string) question {
	period := map[string]string{"daily": "day", "monthly": "month", "yearly": "year", "annual": "year"}[strings.ToLower(m[1])]
	return question{kind: "sum", value: m[2], group: period, period: period}
}

// dataset answers questions about a CSV or JSON file.
func dataset(t task, tools []agentkernel.Tool) (*Plan, error) {
	files := dataFile.FindAllString(t.text, -1)
	if len(files) != 1 {
		return nil, nil
	}
	text := strings.Join(strings.Fields(strings.TrimRight(remark.ReplaceAllString(strings.Replace(t.text, files[0], here, 1), ""), " .!?")), " ")
	q, ok := read(text)
	if !ok {
		return nil, nil
	}
	file := strings.Trim(files[0], `"'`)
	if strings.ContainsAny(path.Base(file), "*?") {
		return nil, nil // several files
	}
	folder := ""
	var reader fileTool
	var used []agentkernel.Tool
	if t.folder {
		folder = path.Join("/workspace", file)
	} else {
		var ok bool
		if reader, ok = findReader(tools); !ok {
			return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is asked) would need the folder of the file, or a tool that reads text files").
				WithHint("name the folder (--workspace DIR), or an MCP configuration file with a file server (--tools FILE)")
		}
		used = append(used, reader.Tool)
	}
	data := map[string]any{"Read": reader, "Folder": folder, "Path": file, "Format": format(file), "Kind": q.kind, "Value": q.value, "Group": q.group, "Period": q.period}
	if q.kind == "" {
		return program("summary", "summary.py", "Summary of "+file, data, used...)
	}
	return program("grouping", "grouping.py", q.title(file), data, used...)
}

func read(text string) (question, bool) {
	for _, f := range forms {
		if m := f.re.FindStringSubmatch(text); m != nil && strings.Count(text, here) == 1 {
			q := f.read(m)
			if q.period == "" {
				q.period = map[string]string{"day": "day", "month": "month", "year": "year"}[strings.ToLower(q.group)]
			}
			if plainColumn(q.value) && plainColumn(q.group) {
				return q, true
			}
		}
	}
	return question{}, false
}

// plainColumn refuses what is more than the name of a column: "price and mail it".
func plainColumn(name string) bool {
	words := strings.Fields(strings.ToLower(name))
	for _, w := range words {
		if w == "and" || w == "then" || w == "by" || w == "per" || w == "where" || w == "with" {
			return false
		}
	}
	return len(words) <= 4
}

func (q question) title(file string) string {
	s := strings.ToUpper(kindTitle(q.kind)[:1]) + kindTitle(q.kind)[1:] + " of " + q.value
	if q.group != "" {
		s += " by " + q.group
	}
	return s + " in " + file
}

func format(file string) string {
	switch ext := strings.ToLower(path.Ext(file)); ext {
	case ".jsonl", ".ndjson":
		return "lines"
	case ".json":
		return "json"
	case ".tsv":
		return "tabs"
	}
	return "csv"
}
