package main

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/diff"
	"agentkernel/cmd/agentkernel/internal/trace"
	"agentkernel/cmd/agentkernel/internal/why"
	"agentkernel/embedded"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/packages"
	"agentkernel/internal/setup"
	"agentkernel/userland/template"
)

// What --json prints is what docs/cli.md says: each member of an object is there, and no other. In brackets stand those of
// objects within, and values.
func TestJSONIsDocumented(t *testing.T) {
	doc := readDoc(t, "cli.md")
	_, section, _ := strings.Cut(doc, "\n## JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for _, cells := range cellsOf(section) {
		rows[cells[0]] = cells[1]
	}
	_, process, _ := strings.Cut(section, "\nA process has ")
	rows["process"], _, _ = strings.Cut(process, ". An error has ")
	_, rows["error"], _ = strings.Cut(process, ". An error has ")
	rows["error"], _, _ = strings.Cut(rows["error"], "\n\n")
	run := members(reflect.TypeFor[runResult]())
	for row, c := range map[string]struct {
		of   []string
		part int // of the row, which has several separated by semicolons
	}{
		"`run`, `tools call`, `resume -f`": {of: slices.DeleteFunc(run, func(name string) bool { return name == "past" })}, // a rerun's
		"`rerun`":                          {of: []string{"past"}},
		"`do`":                             {of: slices.DeleteFunc(append(members(reflect.TypeFor[taskStep]()), "tokens", "turns", "skill"), func(name string) bool { return name == "number" })}, // nobody here checks results
		"`task`":                           {of: members(reflect.TypeFor[template.Plan]())},
		"`logs`":                           {of: slices.DeleteFunc(members(reflect.TypeFor[agentkernel.Event]()), func(name string) bool { return name == "ask" || name == "idle" })}, // never logged
		"`trace --open-waits`":             {of: members(reflect.TypeFor[trace.OpenWait]())},
		"`why`":                            {of: members(reflect.TypeFor[why.Report]())},
		"`diff`":                           {of: members(reflect.TypeFor[diff.Diff]())},
		"`diff PID`":                       {of: members(reflect.TypeFor[agentkernel.Changes]())},
		"`apply`":                          {of: members(reflect.TypeFor[agentkernel.Applied]())},
		"`discard`":                        {of: members(reflect.TypeFor[discarded]())},
		"`apply`, `diff`, `discard` without a PID": {of: members(reflect.TypeFor[waitingList]())},
		"`get -o PATH`": {of: members(reflect.TypeFor[got]())},
		"`sql`":         {of: members(reflect.TypeFor[sqlResult]())},
		"`inspect`":     {of: members(reflect.TypeFor[inspection]())},
		"`stop`, `kill`, `signal`, `pause`, `resume`": {of: members(reflect.TypeFor[signalled]())},
		"`budget show`, `budget add`":                 {of: append(members(reflect.TypeFor[agentkernel.BudgetState]()), members(reflect.TypeFor[agentkernel.Spending]())...)},
		"`resolve`":                                   {of: members(reflect.TypeFor[resolved]())},
		"`export -o FILE`":                            {of: members(reflect.TypeFor[exported]())},
		"`replay`":                                    {of: members(reflect.TypeFor[agentkernel.Verdict]())},
		"`tools list`":                                {of: members(reflect.TypeFor[toolList]())},
		"`tools search`":                              {of: members(reflect.TypeFor[agentkernel.ToolMatches]())},
		"`llm list`":                                  {of: members(reflect.TypeFor[listedModel]())},
		"`llm test`":                                  {of: members(reflect.TypeFor[tested]())},
		"`llm usage`":                                 {of: members(reflect.TypeFor[agentkernel.ModelUsage]())},
		"`llm limits`":                                {of: members(reflect.TypeFor[agentkernel.ModelLimits]())},
		"`llm prices`":                                {of: members(reflect.TypeFor[shownPrices]())},
		"`llm prices update`":                         {of: members(reflect.TypeFor[updatedPrices]())},
		"`start`":                                     {of: members(reflect.TypeFor[started]())},
		"`shutdown`":                                  {of: members(reflect.TypeFor[stopped]())},
		"`backup`, `backup --check`":                  {of: members(reflect.TypeFor[backedUp]())},
		"`restore`":                                   {of: members(reflect.TypeFor[embedded.Restored]())},
		"`prune`":                                     {of: members(reflect.TypeFor[agentkernel.Pruned]())},
		"`bug-report`":                                {of: members(reflect.TypeFor[bugReported]())},
		"`init`":                                      {of: members(reflect.TypeFor[initResult]())},
		"`install`":                                   {of: members(reflect.TypeFor[installResult]())},
		"`uninstall` without a client":                {of: members(reflect.TypeFor[installedAt]())},
		"`uninstall`":                                 {of: members(reflect.TypeFor[uninstallResult]())},
		"`config show`":                               {of: members(reflect.TypeFor[shownConfig]())},
		"`env ls`":                                    {of: members(reflect.TypeFor[packages.Environment]())},
		"`help`":                                      {of: members(reflect.TypeFor[helped]())},
		"`setup`, `doctor`, `version`":                {of: members(reflect.TypeFor[setup.Report]()), part: 1},
		"process":                                     {of: members(reflect.TypeFor[agentkernel.Process]())},
		"error":                                       {of: []string{"code", "message", "hint", "op", "pid", "traceback", "exception"}},
	} {
		text, ok := rows[row]
		if !ok {
			t.Errorf("docs/cli.md has no row %s", row)
			continue
		}
		if parts := strings.Split(text, "; "); c.part > 0 && c.part < len(parts) {
			text = parts[c.part]
		}
		said := map[string]bool{}
		for _, m := range backticked.FindAllStringSubmatch(outsideBrackets(text), -1) {
			for _, name := range word.FindAllString(m[1], -1) {
				said[name] = true
			}
		}
		for _, name := range c.of {
			if !said[name] {
				t.Errorf("docs/cli.md, %s: %s is missing", row, name)
			}
			delete(said, name)
		}
		for name := range said {
			if !slices.Contains([]string{"run", "with", "plan", "unfinished", "-f", "f", "end"}, name) { // other commands, flags and values
				t.Errorf("docs/cli.md, %s: there is no %s", row, name)
			}
		}
	}
}

// TestUsageIsDocumented: what stands in brackets, too.
func TestUsageIsDocumented(t *testing.T) {
	_, section, _ := strings.Cut(readDoc(t, "cli.md"), "\n## JSON\n")
	for row, of := range map[string][]reflect.Type{
		"| `llm usage` |":         {reflect.TypeFor[agentkernel.UsageRow]()},
		"| `llm limits` |":        {reflect.TypeFor[agentkernel.KeyLimits](), reflect.TypeFor[agentkernel.ModelLimit](), reflect.TypeFor[agentkernel.QueuedAt](), reflect.TypeFor[agentkernel.ModelDeployment]()},
		"| `llm prices` |":        {reflect.TypeFor[priceTable](), reflect.TypeFor[pricedModel]()},
		"| `llm prices update` |": {reflect.TypeFor[models.Change]()},
		"| `init` |":              {reflect.TypeFor[proposed]()},
	} {
		_, text, found := strings.Cut(section, row)
		text, _, _ = strings.Cut(text, "\n")
		if !found {
			t.Errorf("docs/cli.md has no row %s", row)
		}
		for _, of := range of {
			for _, name := range members(of) {
				if !strings.Contains(text, "`"+name+"`") {
					t.Errorf("docs/cli.md, %s: %s is missing", row, name)
				}
			}
		}
	}
}

var (
	backticked = regexp.MustCompile("`([^`]+)`")
	word       = regexp.MustCompile(`[a-z][a-z0-9_]*`)
)

// outsideBrackets is a text without what stands in brackets.
func outsideBrackets(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// members are the names that the JSON of a struct has.
func members(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			if f.Type.Kind() == reflect.Pointer {
				f.Type = f.Type.Elem()
			}
			names = append(names, members(f.Type)...)
		default:
			names = append(names, name)
		}
	}
	return names
}
