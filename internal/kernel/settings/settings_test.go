package settings_test

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/settings"
	"agentkernel/internal/sys"
)

type store struct{ agentkernel.Store }

type tools struct{ sys.Toolbox }

type retention struct{ agentkernel.Retention }

func whole() settings.Config {
	return settings.Config{Store: store{}, Tools: tools{}, Retention: retention{}}
}

// TestWithoutWhichThereIsNone: a Config without a store, tools or retention is refused, and the error names what is missing.
func TestWithoutWhichThereIsNone(t *testing.T) {
	for name, without := range map[string]func(*settings.Config){
		"Config.Store is missing":     func(c *settings.Config) { c.Store = nil },
		"Config.Tools is missing":     func(c *settings.Config) { c.Tools = nil },
		"Config.Retention is missing": func(c *settings.Config) { c.Retention = nil },
	} {
		c := whole()
		without(&c)
		if err := agentkernel.AsError(c.Complete(), "", ""); err == nil || err.Code != agentkernel.CodeInvalid || err.Message() != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaults: whatever a Config leaves out has a value afterwards, but for what may be missing.
func TestDefaults(t *testing.T) {
	c := whole()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	may := map[string]bool{"Backends": true, "Families": true, "Library": true, "Layers": true, "Backup": true, "Recovers": true, "Observer": true,
		"Recordings": true, "About": true, "Weight": true, "Allowances": true, "Traffic": true}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != may[name] {
			t.Errorf("%s: %v", name, v.Field(i))
		}
	}
	if c.Limits != agentkernel.DefaultLimits() || c.Epoch(7) != 0 || time.Since(c.Now()) > time.Minute {
		t.Errorf("limits %+v, epoch %d, now %v", c.Limits, c.Epoch(7), c.Now())
	}
	if most := max(4, int(room.Most()/(64<<20))); c.Slots < 4 || c.Slots > most || c.Slots < min(most, runtime.NumCPU()) || c.Residents < c.Slots {
		t.Errorf("%d slots, %d residents", c.Slots, c.Residents)
	}
}

// TestWhatIsSaidStays: what a Config says holds; a program that has a slot has a sandbox, and none need be kept loaded.
func TestWhatIsSaidStays(t *testing.T) {
	c := whole()
	c.Slots, c.Residents, c.Loaded, c.ParkAfter, c.SessionStay, c.Grace = 9, 3, -1, time.Hour, time.Hour, time.Hour
	c.Limits.Calls = 7
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if c.Slots != 9 || c.Residents != 9 || c.Loaded != 0 || c.ParkAfter != time.Hour || c.SessionStay != time.Hour || c.Grace != time.Hour || c.Limits.Calls != 7 {
		t.Errorf("%+v", c)
	}
	if c.Limits.Memory != agentkernel.DefaultLimits().Memory {
		t.Errorf("the limits that it leaves out: %+v", c.Limits)
	}
}
