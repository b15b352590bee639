package embedded_test

import (
	"maps"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
)

// What Reload takes counts at once, and Info says so, also to principals that may see it. What is wrong changes nothing.
func TestReload(t *testing.T) {
	first := map[string]string{"storage.quota": "1g"}
	k, err := embedded.Open(t.Context(), embedded.Config{Home: t.TempDir(), Version: "test", Settings: first, Quota: 1 << 30})
	must(t, err)
	defer k.Close()
	expect := func(quota int64, settings map[string]string) {
		t.Helper()
		for _, seen := range []agentkernel.Kernel{k, k.As(agentkernel.Owner())} {
			if info, err := seen.Info(t.Context()); err != nil || info.Storage.Quota != quota || !maps.Equal(info.Settings, settings) {
				t.Errorf("a quota of %d and %v, %v", info.Storage.Quota, info.Settings, err)
			}
		}
	}
	expect(1<<30, first)
	second := map[string]string{"storage.quota": "2g"}
	wantCode(t, "a bad secret", k.Reload(embedded.Config{Quota: 2 << 30, Settings: second, Secrets: []string{"x"}}), agentkernel.CodeInvalid)
	expect(1<<30, first)
	must(t, k.Reload(embedded.Config{Quota: 2 << 30, Settings: second}))
	expect(2<<30, second)
}
