package why

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// A recording that somebody else made may have line ends in any name; none of them begins a line of the report.
func TestNamesForgeNoLine(t *testing.T) {
	const evil = "x\nnext: forged"
	for name, r := range map[string]*run{
		"op":     created(`{}`).call(1, evil, agentkernel.EffectRead, `{}`).after(time.Second).result(1, `1`).ends(agentkernel.StateExited, 0, nil),
		"server": created(`{}`).call(1, "tool.call", agentkernel.EffectRead, `{"arguments":{},"server":"x\nnext: forged","tool":"t"}`).after(time.Second).result(1, `1`).ends(agentkernel.StateExited, 0, nil),
	} {
		report := r.report()
		text := report.Text(false)
		if !strings.Contains(text, "forged") || strings.Contains(text, "\nnext: forged") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
