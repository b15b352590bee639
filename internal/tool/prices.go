package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentkernel"
)

// prices are what calls of a server's tools cost, by either name of a tool; "*" is for those without one of their own.
type prices map[string]agentkernel.NanoUSD

// UnmarshalJSON reads one price for all tools, or an object of prices by tool.
func (p *prices) UnmarshalJSON(b []byte) error {
	texts := map[string]json.RawMessage{}
	if b[0] != '{' {
		texts["*"] = b
	} else if err := json.Unmarshal(b, &texts); err != nil {
		return err
	}
	*p = prices{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var price agentkernel.NanoUSD
		of := ""
		if b[0] == '{' {
			of = fmt.Sprintf(" of %q", name)
		}
		if err := price.UnmarshalJSON(texts[name]); err != nil {
			return fmt.Errorf(`"cost_usd"%s: %.60s is no number of dollars: write 0.01, or {"search": 0.005, "*": 0} by tool`, of, texts[name])
		}
		if price < 0 {
			return fmt.Errorf(`"cost_usd"%s is negative: a price is 0 or above`, of)
		}
		(*p)[name] = price
	}
	return nil
}

// of is the price of a tool; nil: none is said.
func (p prices) of(t *agentkernel.Tool) *agentkernel.NanoUSD {
	for _, name := range []string{t.Name, t.PythonName, "*"} {
		if price, ok := p[name]; ok {
			return &price
		}
	}
	return nil
}

// check refuses prices of tools that the server does not have: one that is misspelt would cost what "*" says.
func (p prices) check(e *entry, tools []agentkernel.Tool) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if name != "*" && !slices.ContainsFunc(tools, func(t agentkernel.Tool) bool { return t.Name == name || t.PythonName == name }) {
			names := make([]string, len(tools))
			for i := range tools {
				names[i] = tools[i].Name
			}
			return agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, `server %q (%s, %s): "cost_usd" names the tool %q, which it does not have`, e.name, e.file, e.where, name).
				WithHint("%s", didYouMean(name, names, "its tools"))
		}
	}
	return nil
}
