package bytesize_test

import (
	"testing"

	"agentkernel/internal/bytesize"
)

func TestTheFormsOfASize(t *testing.T) {
	for _, c := range []struct {
		n                    int64
		text, rounded, inMiB string
	}{
		{0, "0 bytes", "0 KiB", "0 bytes"},
		{1023, "1023 bytes", "1 KiB", "1023 bytes"},
		{1024, "1 KiB", "1 KiB", "1 KiB"},
		{1025, "1 KiB", "2 KiB", "1025 bytes"},
		{1536, "1.5 KiB", "2 KiB", "1536 bytes"},
		{1 << 20, "1 MiB", "1 MiB", "1 MiB"},
		{3 << 19, "1.5 MiB", "1 MiB", "1.5 MiB"},
		{1 << 30, "1 GiB", "1.0 GiB", "1024 MiB"},
		{3 << 29, "1.5 GiB", "1.5 GiB", "1536 MiB"},
	} {
		if got := bytesize.Text(c.n); got != c.text {
			t.Errorf("Text(%d) is %q, want %q", c.n, got, c.text)
		}
		if got := bytesize.Rounded(c.n); got != c.rounded {
			t.Errorf("Rounded(%d) is %q, want %q", c.n, got, c.rounded)
		}
		if got := bytesize.InMiB(c.n); got != c.inMiB {
			t.Errorf("InMiB(%d) is %q, want %q", c.n, got, c.inMiB)
		}
	}
}
