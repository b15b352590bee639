package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentkernel/internal/config"
)

// proposed is a model that could be declared here, since its key or its server is there.
type proposed struct {
	Line string `json:"line"` // of the setting models
	Why  string `json:"why"`
}

// usualModels are what is proposed of each vendor whose key is in its usual variable. The table of prices of this version has them.
var usualModels = []struct{ variable, fast, smart string }{
	{"ANTHROPIC_API_KEY", "anthropic:claude-haiku-4-5", "anthropic:claude-opus-4-8"},
	{"OPENAI_API_KEY", "openai:gpt-5-mini", "openai:gpt-5.5"},
}

// proposeModels finds which models could be declared: by the variables in which their keys usually are, and by a look for an Ollama on this
// machine. No key is read beyond whether it is there, and none is sent.
func (a *app) proposeModels(ctx context.Context) (found []proposed) {
	for _, u := range usualModels {
		if strings.TrimSpace(a.getenv(u.variable)) == "" {
			continue
		}
		fast, smart := "fast ", "smart "
		if len(found) > 0 { // the first vendor has these
			fast, smart = "fast-"+vendor(u.fast)+" ", "smart-"+vendor(u.smart)+" "
		}
		found = append(found, proposed{fast + u.fast, u.variable + " is set"}, proposed{smart + u.smart, u.variable + " is set"})
	}
	address := a.ollamaAddress()
	if names := ollamaModels(ctx, address); len(names) > 0 {
		line := "local ollama:" + names[0]
		if address != defaultOllama {
			line += " url=" + address
		}
		found = append(found, proposed{line, "an Ollama runs at " + address})
	}
	return found
}

func vendor(model string) string {
	name, _, _ := strings.Cut(model, ":")
	return name
}

const defaultOllama = "http://localhost:11434"

// ollamaAddress is where an Ollama would be: OLLAMA_HOST says it as Ollama itself reads it, with or without scheme and port.
func (a *app) ollamaAddress() string {
	host := strings.TrimSpace(a.getenv("OLLAMA_HOST"))
	if host == "" {
		return defaultOllama
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" || u.User != nil {
		return defaultOllama
	}
	if name := u.Hostname(); name == "0.0.0.0" || name == "::" || name == "" { // it listens everywhere
		u.Host = strings.Replace(u.Host, name, "localhost", 1)
	}
	if u.Port() == "" {
		u.Host += ":11434"
	}
	return u.Scheme + "://" + u.Host
}

// glance is how long a server on this machine may take to say that it is there.
const glance = 300 * time.Millisecond

// ollamaModels are the models of an Ollama; none: there is none, or it has none.
func ollamaModels(ctx context.Context, address string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/tags", nil)
	if err != nil {
		return nil
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&tags) != nil {
		return nil
	}
	for _, m := range tags.Models {
		if m.Name != "" && !strings.ContainsFunc(m.Name, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r >= 0x7f }) {
			names = append(names, strings.TrimSuffix(m.Name, ":latest"))
		}
	}
	return names
}

// theUsual is the line of a project's file about models where nothing was found.
const theUsual = `# models = ["fast openai:gpt-5-mini"]     # the key is in the variable OPENAI_API_KEY
`

// withModels is a project's file whose line about models says what was found.
func withModels(content string, found []proposed) string {
	if len(found) == 0 {
		return content
	}
	var lines []string
	for _, p := range found {
		lines = append(lines, fmt.Sprintf("#     %q,%s# %s\n", p.Line, strings.Repeat(" ", max(1, 45-len(p.Line))), p.Why))
	}
	return strings.Replace(content, theUsual, "# models = [\n"+strings.Join(lines, "")+"# ]\n", 1)
}

// userFile is the user's own file of settings as messages name it. A model is declared there: a project's file is not the place.
func (a *app) userFile() string {
	file := filepath.Join(config.UserDir(a.env, a.userHome), "config.toml")
	if rest, below := strings.CutPrefix(file, a.userHome+string(filepath.Separator)); below && a.userHome != "" {
		file = "~/" + rest
	}
	return file
}

// declareModel says how a model is declared, to whoever needs one and has none.
func (a *app) declareModel() string {
	return fmt.Sprintf(`declare one: write models = ["fast openai:gpt-5-mini"] into %s, and: export OPENAI_API_KEY=...; then agentkernel llm test tries it. `+
		`agentkernel init lists other models, and the made-up ones of agentkernel devllm take any key (README.md, "From a key to a chart")`, a.userFile())
}

// modelsText says what to write into the settings. Where nothing was found that could be declared, it says what there is to choose from.
func (a *app) modelsText(found []proposed) string {
	var b strings.Builder
	if len(found) > 0 {
		var reasons, lines []string
		for _, p := range found {
			if !slices.Contains(reasons, p.Why) {
				reasons = append(reasons, p.Why)
			}
			lines = append(lines, fmt.Sprintf("%q", p.Line))
		}
		fmt.Fprintf(&b, "next: programs can ask models (%s): put into %s\n          models = [%s]\n", strings.Join(reasons, "; "), a.userFile(), strings.Join(lines, ", "))
	} else {
		fmt.Fprintf(&b, "next: programs can ask models once one is declared: put one of these lines into %s\n", a.userFile())
		for _, u := range usualModels {
			fmt.Fprintf(&b, "          models = [%-35s # and here: export %s=...\n", fmt.Sprintf("%q]", "fast "+u.fast), u.variable)
		}
		fmt.Fprintf(&b, "          models = [%-35s # an Ollama on this machine; it needs no key\n", `"local ollama:llama3.2"]`)
	}
	b.WriteString("      and then: ")
	if a.running() != nil { // it has the settings and the environment with which it was started
		b.WriteString("agentkernel shutdown && ")
	}
	b.WriteString("agentkernel llm test")
	if len(found) == 0 {
		b.WriteString("      (without any key: agentkernel devllm, README.md says how)")
	}
	return b.String() + "\n"
}
