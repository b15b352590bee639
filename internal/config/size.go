package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes as people write it: 1048576, 512m, 2g, 64KiB, 1.5GB. The units are
// powers of 1024 with or without the i, as in ulimit and docker.
func ParseSize(s string) (int64, error) {
	bad := fmt.Errorf("%q is not a size: write 64k, 512m, 2g or a number of bytes", s)
	t := strings.ToLower(strings.TrimSpace(s))
	digits := strings.TrimRight(t, "kmgtib ")
	shift, ok := map[string]uint{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.TrimSpace(t[len(digits):])]
	if !ok {
		return 0, bad
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(f) {
		return 0, bad
	}
	if f <= 0 {
		return 0, fmt.Errorf("%q is not a size above zero; leave it out for the default", s)
	}
	f *= float64(int64(1) << shift)
	if f >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	if f < 1 {
		return 0, bad
	}
	return int64(f), nil
}

// FormatSize writes a number of bytes as ParseSize reads it: 64k, 512m, 2g, or the number where no unit fits.
func FormatSize(n int64) string {
	unit := ""
	for _, u := range []string{"k", "m", "g", "t"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}
