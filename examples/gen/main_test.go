package main

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// The tests and docs of the examples name sums that were computed from exactly this file.
func TestSameBytesEverywhere(t *testing.T) {
	h := sha256.New()
	if err := write(h, 50_000); err != nil {
		t.Fatal(err)
	}
	const want = "5eceb25c6f58183f0c1d9c3ae7bfca176480bfc0b2c126dca81f1543585967c0"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("sha256 is %s, want %s: the generated sales changed", got, want)
	}
}
