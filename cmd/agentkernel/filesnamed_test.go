package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// TestFilesRead: what a task reads without a doubt is found, and nothing that it may make, that is no file, or that is elsewhere.
func TestFilesRead(t *testing.T) {
	for task, want := range map[string][]string{
		"Make a chart of sales.csv":                                     {"sales.csv"},
		"Which region grew fastest in sales.csv?":                       {"sales.csv"},
		"Find the errors in logs/app.log.":                              {"logs/app.log"},
		"Compare a.csv, b.csv and c-2.csv":                              {"a.csv", "b.csv", "c-2.csv"},
		"Sum up the file \"my.csv\" and write it to sums.csv":           {"my.csv"},
		"summarize 'notes.md'":                                          {"notes.md"},
		"Read ../data/x.json and y.json":                                {"../data/x.json", "y.json"},
		"Make a chart of sales.csv from sales.csv":                      {"sales.csv"},
		"Write the totals to report.txt":                                nil,
		"Put a list of all regions in regions.csv":                      nil,
		"Create a summary of the folder as out.md":                      nil,
		"Fetch the data from https://example.com/sales.csv":             nil,
		"Fetch the data from example.com, v1.2, and ask bob@site.xml":   nil,
		"Was steht in umsatz.csv?":                                      {"umsatz.csv"},
		"What is the average of 3.5 and 10?":                            nil,
		"Convert it, e.g. into a table of contents.":                    nil,
		"Chart sales.csv":                                               nil,
		"Draw a picture with the numbers of sales.csv in colours.html?": {"sales.csv"},
	} {
		if got := filesRead(task); !slices.Equal(got, want) {
			t.Errorf("%q reads %q, want %q", task, got, want)
		}
	}
}

// TestFilesNamed: a file is missed where programs cannot see it, and not where tools may have it.
func TestFilesNamed(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"shop/sales.csv", "shop/old/orders.csv", "shop/.hidden/secret.csv", "other/months.csv"} {
		if err := os.MkdirAll(filepath.Join(home, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shop := &agentkernel.Workspace{Path: filepath.Join(home, "shop")}
	for name, c := range map[string]struct {
		task string
		spec agentkernel.Spec
		says string // of the hint; "": it is not refused
	}{
		"it is there":              {"chart of sales.csv", agentkernel.Spec{Workspace: shop}, ""},
		"it is deeper":             {"chart of orders.csv", agentkernel.Spec{Workspace: shop}, ""},
		"named from here":          {"chart of shop/sales.csv", agentkernel.Spec{Workspace: shop}, ""},
		"named from the root":      {"chart of " + home + "/shop/sales.csv", agentkernel.Spec{Workspace: shop}, ""},
		"another name":             {"chart of sale.csv", agentkernel.Spec{Workspace: shop}, "did you mean sales.csv?"},
		"another name, tools":      {"chart of sale.csv", agentkernel.Spec{Workspace: shop, Tools: []string{"t"}}, "did you mean sales.csv?"},
		"no such":                  {"chart of weather.csv", agentkernel.Spec{Workspace: shop}, "there are sales.csv, old/orders.csv; if"},
		"no such, tools":           {"chart of weather.csv", agentkernel.Spec{Workspace: shop, Tools: []string{"t"}}, ""},
		"in another folder":        {"chart of other/months.csv", agentkernel.Spec{Workspace: shop}, "--workspace ."},
		"a hidden one is no guess": {"chart of secret.csv", agentkernel.Spec{Workspace: shop}, "there are sales.csv, old/orders.csv"},
		"no folder":                {"chart of shop/sales.csv", agentkernel.Spec{}, "show them this folder: --workspace .;"},
		"no folder, nowhere":       {"chart of weather.csv", agentkernel.Spec{}, "--workspace DIR"},
		"no folder, tools":         {"chart of weather.csv", agentkernel.Spec{Tools: []string{"t"}}, ""},
		"no folder, hosts":         {"chart of weather.csv", agentkernel.Spec{AllowHosts: []string{"h"}}, ""},
		"another folder":           {"chart of weather.csv", agentkernel.Spec{Volumes: []agentkernel.Volume{{}}}, ""},
	} {
		a := &app{host: host{out: io.Discard, err: io.Discard, workingDir: func() (string, error) { return home, nil }}}
		a.con = a.console()
		err := a.filesNamed(c.task, &c.spec)
		e := agentkernel.AsError(err, "", "")
		if (err == nil) != (c.says == "") || err != nil && (e.Code != agentkernel.CodeNotFound || !strings.Contains(e.Hint, c.says)) {
			t.Errorf("%s: %v, want the hint %q", name, e, c.says)
		}
	}
}
