package replay

import "testing"

func TestSameButAddresses(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"<f at 0x7f1a1366d400>", "<f at 0x7fee6a26d401>", true},
		{"<f at 0x7f1a1366d400> 1", "<f at 0x7fee6a26d401> 2", false},
		{"<f at 0x7f1a1366d400>", "<g at 0x7f1a1366d400>", false},
		{"0x7f1a1366d400", "0x819fec0", true},
		{"0x7f1a1366d400", "0x819fg", false},
		{"<f at 0x819fec0> and <f at 0x819fec0>", "<f at 0x34d9fec0> and <f at 0x34d9fec0>", true},
		{"<f at 0x819fec0> and", "<f at 0x34d9fec0>", false},
		{"7f1a1366d400", "7f1a1366d401", false},
		{"0x7f1a", "0x7f1b", false},
		{"", "", true},
	} {
		if got := sameButAddresses(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
