package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"agentkernel"
)

// What is damaged in the header of a database is said with its bytes, and what to do. Nothing else may be advised: no log lost anything, also
// where a kernel was killed and has left its mark.
func TestADamagedHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(h []byte)
		words  string
		reads  bool // a reader takes it, and Examine says what is wrong
	}{
		{"version for writing", func(h []byte) { h[18] = 7 }, "the version for writing in its header (byte 18) is 7", true},
		{"version for reading", func(h []byte) { h[19] = 255 }, "the version for reading in its header (byte 19) is 255", false},
		{"format of the schema", func(h []byte) { h[47] = 9 }, "the format of the schema in its header (bytes 44 to 47) is 9", false},
		{"schema version", func(h []byte) { h[63]-- }, "and its header (bytes 60 to 63) says 8", false},
		{"first schema version", func(h []byte) { h[63] = 1 }, "and its header (bytes 60 to 63) says 1", false},
		{"no schema version", func(h []byte) { clear(h[60:64]) }, "has tables and no schema version (bytes 60 to 63 of its header)", false},
		{"application", func(h []byte) { h[68] ^= 1 }, "and its header (bytes 68 to 71) says that another program made it", false},
		{"version and application", func(h []byte) { clear(h[60:72]) }, "and its header (bytes 68 to 71) says that another program made it, 0x0", false},
	} {
		for _, marked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, marked %t", c.name, marked), func(t *testing.T) {
				cfg := testConfig(t.TempDir())
				s := mustOpen(t, cfg)
				if err := appendFlush(s, note(1, 1, 10)); err != nil {
					t.Fatal(err)
				}
				mark := takePicture(t, cfg.Path)["-mark"]
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				content, err := os.ReadFile(cfg.Path)
				if err != nil {
					t.Fatal(err)
				}
				c.damage(content[:100])
				if err := os.WriteFile(cfg.Path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				if marked {
					if err := os.WriteFile(MarkPath(cfg.Path), mark, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				says := func(who string, err error) {
					t.Helper()
					e := agentkernel.AsError(err, "", "")
					if err == nil || e.Code != agentkernel.CodeCorrupt || !strings.Contains(e.Message(), c.words) || !strings.Contains(e.Hint, "agentkernel restore FILE --force") || strings.Contains(e.Hint, "accept-loss") {
						t.Errorf("%s: %v", who, err)
					}
				}
				loss, err := AcceptLoss(t.Context(), cfg, ".old")
				if loss != nil || err != nil && IsDamaged(err) {
					t.Errorf("a loss is accepted: %+v, %v", loss, err)
				}
				if now := takePicture(t, cfg.Path)["-mark"]; marked && !bytes.Equal(now, mark) {
					t.Errorf("the mark has become %q", now)
				}
				err = CheckLog(t.Context(), cfg)
				if err == nil {
					_, err = Open(t.Context(), cfg)
				}
				says("open", err)
				found, err := Examine(t.Context(), cfg)
				if c.reads && err == nil && found.Damage != nil {
					err = found.Damage
				}
				says("examine", err)
			})
		}
	}
}

// What is damaged in the header and stands in the log as it should be is no damage: the next kernel writes it back.
func TestADamagedHeaderThatTheLogMends(t *testing.T) {
	_, p := written(t, 3)
	content := bytes.Clone(p[""])
	content[18] = 7
	cfg := p.put(t, picture{"": content})
	if e, err := Examine(t.Context(), cfg); err != nil || e.Damage != nil {
		t.Errorf("%v, %v", e.Damage, err)
	}
	s := mustOpen(t, cfg)
	e, err := Examine(t.Context(), cfg) // beside a kernel
	if err = errors.Join(err, s.Close()); err != nil || e.Damage != nil {
		t.Errorf("with a kernel: %v, %v", e.Damage, err)
	}
	if what := headerDamage(cfg.Path); what != "" {
		t.Errorf("it was not written back: %s", what)
	}
}
