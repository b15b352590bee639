package main

import (
	"cmp"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/api"
	"agentkernel/internal/config"
	"agentkernel/internal/datadir"
)

type configCmd struct {
	Show   configShowCmd   `cmd:"" help:"Show the settings that are in force."`
	Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the settings files, for editors."`
}

func (configCmd) Help() string {
	return "Where settings come from, and what they mean: docs/config.md.\n\n" +
		examples("agentkernel config show", "agentkernel config show --origin")
}

type configShowCmd struct {
	Origin bool `help:"Where each value comes from, and which variable sets it."`
}

func (configShowCmd) Help() string {
	return "A value in brackets was set nowhere: it is the default.\n\n" +
		examples("agentkernel config show", "agentkernel config show --origin", "agentkernel config show --json | jq '.settings[] | select(.set)'")
}

// shownSetting is one setting as config show --json prints it.
type shownSetting struct {
	Key      string   `json:"key"`
	Values   []string `json:"values"` // one, or those of a list; none: the kernel chooses
	Set      bool     `json:"set"`    // false: the default
	Origin   string   `json:"origin"` // file and line, variable, flag or "default"
	Variable string   `json:"variable"`
}

// shownConfig is what config show --json prints.
type shownConfig struct {
	Settings    []shownSetting `json:"settings"`
	UserFile    string         `json:"user_file"` // "" if there is none
	ProjectFile string         `json:"project_file"`
	Notes       []string       `json:"notes"` // on what the project file sets and does not count
}

func (c *configShowCmd) Run(a *app) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	shown, err := a.shown(cfg)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(shown)
	}
	rows := [][]string{{"KEY", "VALUE"}}
	if c.Origin {
		rows[0] = append(rows[0], "FROM", "VARIABLE")
	}
	for _, s := range shown.Settings {
		value := strings.Join(s.Values, ", ")
		switch {
		case s.Set:
		case value == "":
			value = cmp.Or(valueOfNone[s.Key], "(none)")
		default:
			value = "(" + value + ")"
		}
		row := []string{s.Key, value}
		if c.Origin {
			row = append(row, a.relative(s.Origin), s.Variable)
		}
		rows = append(rows, row)
	}
	text := console.Table(rows)
	if c.Origin {
		text += "\nuser file: " + orNone(shown.UserFile) + "\nproject file: " + orNone(shown.ProjectFile) + "\n"
	}
	a.con.Out(text)
	for _, note := range shown.Notes {
		a.con.Note("%s", note)
	}
	return a.outputError()
}

// valueOfNone says what is in force where a setting has no value.
var valueOfNone = map[string]string{"engine": "(chosen by the kernel)", "workers": "(chosen by the kernel)", "isolation": "(that of the backend)",
	"storage.quota": "(anything)", "storage.keep": "(never pruned)"}

func orNone(path string) string {
	if path == "" {
		return "none"
	}
	return path
}

// shown is the configuration with the defaults of what was set nowhere.
func (a *app) shown(cfg *config.Config) (*shownConfig, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	defaults := config.Defaults(config.Values{Home: home, IdleAfter: api.DefaultIdleAfter,
		Limits: cfg.Limits, Log: config.Log{Path: datadir.At(home).Log(), Size: datadir.DefaultLogSize, Keep: datadir.DefaultLogKeep}})
	out := &shownConfig{UserFile: cfg.UserFile, ProjectFile: cfg.ProjectFile, Notes: append([]string{}, cfg.Notes()...)}
	for i, s := range cfg.Settings() {
		one := shownSetting{Key: s.Name, Values: s.Values, Set: s.Origin.Kind != config.Default, Origin: s.Origin.String(), Variable: s.Variable}
		if !one.Set {
			one.Values = defaults[i].Values
		}
		if one.Values == nil {
			one.Values = []string{}
		}
		out.Settings = append(out.Settings, one)
	}
	return out, nil
}

type configSchemaCmd struct{}

func (configSchemaCmd) Help() string {
	return `Editors complete and check agentkernel.toml with it. For those that know Taplo's comments, the first line
of the file is: #:schema ./agentkernel.schema.json

` + examples("agentkernel config schema > agentkernel.schema.json")
}

func (configSchemaCmd) Run(a *app) error {
	text, err := config.Schema("Made by agentkernel config schema.")
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "config", "%w", err)
	}
	a.con.Out(string(text))
	return a.outputError()
}
