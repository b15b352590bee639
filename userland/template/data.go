package template

import (
	"path"
	"strconv"
	"strings"
	"sync"

	"agentkernel"
)

// dataFile finds the path of a CSV or JSON file in a task, bare or in quotes.
var dataFile = compile(`(?i)"[^"]+\.(?:csv|tsv|jsonl?|ndjson)"|'[^']+\.(?:csv|tsv|jsonl?|ndjson)'|[^\s"'` + "`" + `,;()]+\.(?:csv|tsv|jsonl?|ndjson)\b`)

// here stands for the file in the patterns below.
const here = "@"

// inFile is the file at the end of a question.
const inFile = `(?: (?:in|from|of|for|using|based on)(?: the)?(?: data| file| table| dataset| rows)*(?: in| from| of)? ` + here + `)`

const (
	column    = `(?:the )?([\pL_][\pL\pN_ .%-]*?)(?: columns?| fields?| values?)?`
	per       = ` (?:by|per|for each|for every|grouped by|group by|in each|of each) `
	measure   = `(sum|total|average|mean|avg|median|minimum|min|smallest|lowest|maximum|max|largest|highest)`
	countable = `(?:count|number|how many)(?: of| all)?(?: the)?(?: (?:rows|records|entries|lines|items|[\pL_]+))?`
)

// question is what a task asks of a table.
type question struct {
	kind         string // an aggregate of `reductions`, "" for a summary, "columns"
	value, group string
	top          int
	period       string // day, month, year: the group is a part of a date
}

// A form of question: a pattern over the task with the file as @, and how to read its groups.
type form struct {
	re   regex
	read func(m []string) question
}

var forms = []form{
	{whole(ask + `(?:the )?(?:top|first|best|largest|highest) (\d+) ` + column + `(?: by| with the (?:most|highest|largest)| in)(?: total| sum of| the)? ` + column + inFile), func(m []string) question {
		n, _ := strconv.Atoi(m[1]) // digits; too large a number keeps all
		return question{kind: "sum", group: m[2], value: m[3], top: max(n, 1)}
	}},
	{whole(ask + `(?:the )?` + countable + per + column + inFile), func(m []string) question { return question{kind: "count", group: m[1]} }},
	{whole(ask + `(?:the )?` + measure + `(?: of)? ` + column + per + column + inFile), func(m []string) question {
		return question{kind: reductions[strings.ToLower(m[1])], value: m[2], group: m[3]}
	}},
	{whole(ask + `(?:group|aggregate|break down)(?: the)?(?: rows| data)?(?: of| in)? ` + here + ` by ` + column), func(m []string) question {
		return question{kind: "count", group: m[1]}
	}},
	{whole(`(?:group|aggregate|break down)(?: the)?(?: rows| data)?(?: of| in)? ` + here + ` by ` + column + `(?:,| and|, and)(?: then)?(?: compute| calculate| show| give)?(?: the)? ` + measure + `(?: up)?(?: of)?(?: the)? ` + column), func(m []string) question {
		return question{kind: reductions[strings.ToLower(m[2])], value: m[3], group: m[1]}
	}},
	{whole(ask + `(?:the )?` + measure + `(?: of)? ` + column + inFile), func(m []string) question {
		return question{kind: reductions[strings.ToLower(m[1])], value: m[2]}
	}},
	{whole(`(?:count(?: all)?(?: the)?|how many)(?: (?:rows|records|entries|lines|items))?(?: are there| are)?` + inFile), countRows},
	{whole(`how many (?:rows|records|entries|lines|items)(?: does)? ` + here + `(?: have| has| contain)?`), countRows},
	{whole(ask + `(?:list )?(?:the )?(?:columns|fields|column names|headers?)` + inFile), func([]string) question { return question{kind: "columns"} }},
	{whole(`(?:(?:process|analy[sz]e|read|take|load) ` + here + `(?:,| and|, and|:)?(?: then)? )?(?:generate|create|make|produce|build|give me|show|write|prepare)(?: a| the| me)* (daily|monthly|yearly|annual) ` + column + `(?: report| summary| totals?| overview)?` + inFile + `?`), periodic},
	{whole(ask + `(?:the |a )?(daily|monthly|yearly|annual)(?: total| sum of| totals of)? ` + column + `(?: report| summary| totals?| overview)?` + inFile), periodic},
	{whole(ask + column + per + column + inFile), func(m []string) question { return question{kind: "sum", value: m[1], group: m[2]} }},
}

func countRows([]string) question { return question{kind: "count"} }

func periodic(m []string) question {
	period := map[string]string{"daily": "day", "monthly": "month", "yearly": "year", "annual": "year"}[strings.ToLower(m[1])]
	return question{kind: "sum", value: m[2], group: period, period: period}
}

// summaryWords may stand around the file when a summary is asked for, and nothing else.
var summaryWords = wordSet(`process analyze analyse summarize summarise summary describe profile read load inspect explore look at into
	statistics stats report overview of the a an file data dataset table in from for on and give me show make create generate produce
	what is what's contents content csv json about`)

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
		return nil, nil // several files: that is a search
	}
	reader, ok := reads.find(tools)
	if !ok {
		return nil, noFileTool("reads text files")
	}
	data := map[string]any{"Read": reader, "Path": file, "Format": format(file), "Kind": q.kind, "Value": q.value, "Group": q.group, "Top": q.top,
		"Period": q.period}
	if q.kind == "" || q.kind == "columns" {
		return program("summary", "summary.py", "Summary of "+file, data, reader.Tool)
	}
	return program("grouping", "grouping.py", q.title(file), data, reader.Tool)
}

func read(text string) (question, bool) {
	for _, f := range forms {
		if m := f.re.FindStringSubmatch(text); m != nil && strings.Count(text, here) == 1 {
			q := f.read(m)
			if q.period == "" {
				q.period = map[string]string{"day": "day", "date": "", "month": "month", "year": "year"}[strings.ToLower(q.group)]
			}
			if plainColumn(q.value) && plainColumn(q.group) {
				return q, true
			}
		}
	}
	for _, w := range strings.Fields(text) {
		if w != here && !summaryWords()[strings.ToLower(strings.Trim(w, ",:"))] {
			return question{}, false
		}
	}
	return question{}, true
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
	s := "Number of rows"
	if q.kind != "count" {
		s = strings.ToUpper(kindTitle(q.kind)[:1]) + kindTitle(q.kind)[1:] + " of " + q.value
	}
	if q.group != "" {
		s += " by " + q.group
	}
	if q.top > 0 {
		s = "Top " + strconv.Itoa(q.top) + ": " + s
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

func wordSet(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(words) {
			set[w] = true
		}
		return set
	})
}
