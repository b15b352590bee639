// Package bytesize writes numbers of bytes for people, in units of 1024. The forms differ in how exact they are.
package bytesize

import (
	"fmt"
	"strings"
)

// Text writes a size to a tenth of its unit: "1.5 GiB", "12 MiB", "200 bytes".
func Text(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.size)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Rounded writes the size of a file in whole units, but for GiB: "1.5 GiB", "12 MiB", "4 KiB".
func Rounded(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

// InMiB writes the limit of a backend in MiB, and a smaller one exactly: "1024 MiB", "1.5 MiB", "64 KiB", "1025 bytes".
func InMiB(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
