package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
)

// The tests and docs of the examples name sums that were computed from exactly these files.
func TestSameBytesEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		write func(io.Writer, int) error
		rows  int
		want  string
	}{
		"sales":  {write, 50_000, "5eceb25c6f58183f0c1d9c3ae7bfca176480bfc0b2c126dca81f1543585967c0"},
		"stocks": {writeStocks, 10_000, "a75a3e620de1009cf25f2a8f0fb9476e7f8c01d96cee0e61b7d69dd9bfec2e1c"},
	} {
		h := sha256.New()
		if err := c.write(h, c.rows); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != c.want {
			t.Errorf("sha256 is %s, want %s: the generated %s changed", got, c.want, name)
		}
	}
}
