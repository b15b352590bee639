package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/config"
)

// A limit that can be switched off is, by "none" or 0, wherever it is set.
func TestNoneSwitchesALimitOff(t *testing.T) {
	for _, written := range []string{`"none"`, "0"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[limits]\nrepeats = "+written+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(t.TempDir(), "agentkernel")
		if err := os.Symlink(dir, home); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Options{Dir: dir, Env: []string{"XDG_CONFIG_HOME=" + filepath.Dir(home)}})
		if err != nil || c.Limits.Repeats != agentkernel.AnyRepeats {
			t.Errorf("%s: %v %v", written, c, err)
		}
	}
	c, err := config.Load(config.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetFlag("limits.repeats", "--repeats", "none"); err != nil || c.Limits.Repeats != agentkernel.AnyRepeats {
		t.Errorf("%v %v", c.Limits.Repeats, err)
	}
	for _, s := range c.Settings() {
		if s.Name == "limits.repeats" && !slices.Equal(s.Values, []string{"none"}) {
			t.Errorf("it is written as %q", s.Values)
		}
	}
	if err := c.SetFlag("limits.repeats", "--repeats", "-1"); err == nil {
		t.Error("-1 is taken")
	}
	if err := c.SetFlag("limits.in_flight", "--x", "none"); err == nil {
		t.Error("a limit without which nothing holds is switched off")
	}
}
