package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/datadir"
	"agentkernel/internal/llm/models"
)

type llmPricesCmd struct {
	Show   llmPricesShowCmd   `cmd:"" default:"1" help:"Show what the declared models cost, and where that is from."`
	Update llmPricesUpdateCmd `cmd:"" help:"Check a table of prices, and put it into the data directory."`
}

func (llmPricesCmd) Help() string {
	return `The first that knows a model says its price: price= in its declaration, the tables of the setting prices, the one that update has put
into the data directory, the one that comes with this version.

` + examples("agentkernel llm prices", "agentkernel llm prices update prices.json")
}

type llmPricesShowCmd struct{}

func (llmPricesShowCmd) Help() string {
	return examples("agentkernel llm prices", "agentkernel llm prices --json | jq .unpriced")
}

// priceTable is a table of prices as it is shown.
type priceTable struct {
	File   string `json:"file,omitempty"` // "": it comes with this version
	Date   string `json:"date"`
	Source string `json:"source"`
	Models int    `json:"models"`
}

// pricedModel is what a declared model costs.
type pricedModel struct {
	Alias  string                         `json:"alias"`
	Model  string                         `json:"model"`
	Prices map[string]agentkernel.NanoUSD `json:"prices,omitempty"` // by class, for a million tokens
	From   string                         `json:"from,omitempty"`
}

// shownPrices is what llm prices --json prints.
type shownPrices struct {
	Tables   []priceTable  `json:"tables"` // the first that knows a model counts
	Models   []pricedModel `json:"models"`
	Unpriced []string      `json:"unpriced"` // aliases
}

func (c *llmPricesShowCmd) Run(a *app) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	declared, tables, err := a.loadModels()
	if err != nil {
		return err
	}
	shown := shownPrices{Tables: []priceTable{}, Models: []pricedModel{}, Unpriced: []string{}}
	for _, t := range append(slices.Clone(tables), models.Shipped()) {
		shown.Tables = append(shown.Tables, priceTable{t.File, t.Date, t.Source, len(t.Models)})
	}
	for i := range declared {
		m := &declared[i]
		p, from := m.PriceOf(tables...)
		row := pricedModel{Alias: m.Alias, Model: m.ID(), From: from}
		if p == nil {
			shown.Unpriced = append(shown.Unpriced, m.Alias)
		} else {
			row.Prices = p.Classes()
		}
		shown.Models = append(shown.Models, row)
	}
	if a.cli.JSON {
		return a.printJSON(shown)
	}
	if len(declared) == 0 {
		a.con.Note("no model is declared: agentkernel llm list says how")
	} else {
		a.con.Out(pricesTable(shown.Models) + "\n")
	}
	rows := [][]string{{"TABLE", "DATE", "MODELS", "SOURCE"}}
	for _, t := range shown.Tables {
		name := t.File
		if name == "" {
			name = "of this version"
		} else {
			name = a.relative(name)
		}
		rows = append(rows, []string{name, t.Date, fmt.Sprint(t.Models), t.Source})
	}
	a.con.Out(console.Table(rows, 2))
	if len(shown.Unpriced) > 0 {
		a.con.Note("nobody says what %s: price=INPUT/OUTPUT in the declaration does, or a table (agentkernel llm prices update FILE)%s", costs(shown.Unpriced), unpricedMeans(cfg.Allowances))
	}
	return a.outputError()
}

func costs(aliases []string) string {
	if len(aliases) == 1 {
		return aliases[0] + " costs"
	}
	return strings.Join(aliases, ", ") + " cost"
}

// unpricedMeans is what it means that a model has no price.
func unpricedMeans(allowances []string) string {
	all, err := agentkernel.ParseAllowances(allowances)
	if err != nil {
		return ""
	}
	if names := boundUSD(all); len(names) > 0 {
		return "; processes of " + strings.Join(names, ", ") + " cannot ask it, because an allowance bounds their dollars"
	}
	return "; what has a budget of dollars cannot ask it"
}

// boundUSD are the namespaces of which allowances bound the dollars: "namespace team", "all namespaces".
func boundUSD(all agentkernel.Allowances) (names []string) {
	for _, name := range all.Namespaces() {
		if all.Bounds(name, agentkernel.AmountUSD) {
			names = append(names, "namespace "+name)
		}
	}
	if all.Bounds(agentkernel.AnyNamespace, agentkernel.AmountUSD) {
		return []string{"all namespaces"}
	}
	return names
}

// pricesTable is a row for each model, with the classes that some of them has a price of its own for.
func pricesTable(all []pricedModel) string {
	heads := map[string]string{"input": "USD FOR 1M INPUT", "cache_read": "CACHE READ", "cache_write": "WRITE", "cache_write_1h": "WRITE 1H", "output": "OUTPUT", "reasoning": "REASONING"}
	var classes []string
	for _, class := range models.Classes() {
		if class == "input" || class == "output" || slices.ContainsFunc(all, func(m pricedModel) bool { _, has := m.Prices[class]; return has }) {
			classes = append(classes, class)
		}
	}
	head, right := []string{"MODEL", "IS"}, []int{}
	for i, class := range classes {
		head, right = append(head, heads[class]), append(right, 2+i)
	}
	rows := [][]string{append(head, "FROM")}
	for _, m := range all {
		row := []string{m.Alias, m.Model}
		for _, class := range classes {
			n, has := m.Prices[class]
			switch {
			case m.Prices == nil:
				row = append(row, "?")
			case !has:
				row = append(row, "-")
			default:
				row = append(row, "$"+n.String())
			}
		}
		rows = append(rows, append(row, m.From))
	}
	return console.Table(rows, right...)
}

// loadModels are the models that the settings declare, and the tables of prices before that of this version.
func (a *app) loadModels() ([]models.Model, []*models.Table, error) {
	cfg, err := a.settings()
	if err != nil {
		return nil, nil, err
	}
	home, err := a.home()
	if err != nil {
		return nil, nil, err
	}
	return models.Load(cfg.Models, cfg.Prices, models.Installed(datadir.At(home).Prices()))
}

type llmPricesUpdateCmd struct {
	File  string `arg:"" name:"file" help:"The table: JSON, as docs/llm.md shows it."`
	Force bool   `help:"Also a table whose prices look as if they were in another unit."`
}

func (llmPricesUpdateCmd) Help() string {
	return `The table counts from the next start of a kernel on, before that of this version and after the tables of the setting prices. What was
there is kept beside it.

` + examples("agentkernel llm prices update prices.json", "agentkernel llm prices update prices.json --json | jq '.changes[].model'")
}

// updatedPrices is what came of an update.
type updatedPrices struct {
	File    string          `json:"file"`           // where the table is now
	Kept    string          `json:"kept,omitempty"` // where the one before it is; "": there was none
	Date    string          `json:"date"`
	Source  string          `json:"source"`
	Models  int             `json:"models"`
	Changes []models.Change `json:"changes"`
}

func (c *llmPricesUpdateCmd) Run(a *app) error {
	path, err := a.absolute(c.File)
	if err != nil {
		return err
	}
	t, err := models.OpenTable(path)
	if err != nil {
		return err
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	before := []*models.Table{}
	if _, err := os.Stat(models.Installed(dir.Prices())); err == nil {
		old, err := models.OpenTable(models.Installed(dir.Prices()))
		if err != nil {
			a.con.Say("the table that is replaced cannot be read: %s", asError(err).Message())
		} else {
			before = append(before, old)
		}
	}
	before = append(before, models.Shipped())
	if e := t.Suspect(before...); e != nil && !c.Force {
		return e
	}
	kept, err := t.Install(dir.Prices())
	if err != nil {
		return err
	}
	out := updatedPrices{File: models.Installed(dir.Prices()), Kept: kept, Date: t.Date, Source: t.Source, Models: len(t.Models), Changes: t.Changes(before...)}
	if out.Changes == nil {
		out.Changes = []models.Change{}
	}
	if a.cli.JSON {
		return a.printJSON(out)
	}
	a.con.Out(out.text())
	a.notePrices(&out)
	return a.outputError()
}

// notePrices says what to know of an update.
func (a *app) notePrices(out *updatedPrices) {
	if out.Kept != "" {
		a.con.Note("the table before it is kept · go back: agentkernel llm prices update %s", out.Kept)
	} else {
		a.con.Note("go back: remove %s", out.File)
	}
	if cfg, err := a.settings(); err == nil && len(cfg.Prices) > 0 {
		a.con.Note("the setting prices names tables that go before it: %s", strings.Join(cfg.Prices, ", "))
	}
	if a.running() != nil {
		a.con.Note("the kernel that runs goes by the prices with which it was started: agentkernel shutdown ends it")
	}
}

func (u *updatedPrices) text() string {
	head := fmt.Sprintf("installed: %s of %s, %s\n", u.Source, u.Date, count(int64(u.Models), "model"))
	if len(u.Changes) == 0 {
		return head + "no price has changed\n"
	}
	rows := [][]string{{"MODEL", "CLASS", "FROM", "TO"}}
	last := ""
	for _, c := range u.Changes {
		name := c.Model
		if name == last {
			name = ""
		}
		last = c.Model
		rows = append(rows, []string{name, c.Class, priceText(c.From), priceText(c.To)})
	}
	return head + console.Table(rows, 2, 3)
}

func priceText(n *agentkernel.NanoUSD) string {
	if n == nil {
		return "-"
	}
	return "$" + n.String()
}
