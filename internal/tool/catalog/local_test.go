package catalog_test

import (
	"testing"

	"agentkernel"
)

// Local tools of whoever asks are found beside those of the servers, and stay with that question.
func TestLocalToolsAreFound(t *testing.T) {
	src := open(t, newServers(), "").src
	modules := map[string]string{
		"tools.weather.forecast": "def forecast(city: str, days: int = 3) -> str:\n    \"\"\"Weather forecast of a city.\"\"\"\n",
		"tools.weather.unlike":   "def unlike():\n    \"\"\"Nothing of the kind.\"\"\"\n",
	}
	found, err := src.(agentkernel.ToolSearcher).SearchTools(t.Context(), agentkernel.ToolQuery{Text: "forecast of the weather in a city", Modules: modules})
	if err != nil || len(found.Tools) == 0 || found.Tools[0].PythonName != "forecast" || found.Tools[0].Effect != agentkernel.EffectLocal {
		t.Fatalf("%+v, %v", found, err)
	}
	if got := found.Tools[0].Signature; got != "forecast(city: str, days: int = 3) -> str" {
		t.Errorf("signature %q", got)
	}
	plain, err := src.(agentkernel.ToolSearcher).SearchTools(t.Context(), agentkernel.ToolQuery{Text: "forecast of the weather in a city"})
	if err != nil || plain.Total != found.Total-len(modules) {
		t.Errorf("the local tools of one question are seen by the next: %+v, %v", plain, err)
	}
	all, err := src.(agentkernel.ToolSearcher).SearchTools(t.Context(), agentkernel.ToolQuery{Modules: modules})
	if err != nil || all.Total != found.Total || all.Tools[0].PythonName != "forecast" {
		t.Errorf("all: %+v, %v", all, err)
	}
	server, err := src.(agentkernel.ToolSearcher).SearchTools(t.Context(), agentkernel.ToolQuery{Server: "weather", Modules: modules})
	if err != nil || len(server.Tools) != len(modules) {
		t.Errorf("those of one server: %+v, %v", server, err)
	}
}
