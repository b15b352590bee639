package room

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestGroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		self string
		fs   fstest.MapFS
		want int64
	}{
		"none":              {"", fstest.MapFS{}, math.MaxInt64},
		"no limit":          {"0::/a\n", fstest.MapFS{"a/memory.max": file("max\n")}, math.MaxInt64},
		"its own":           {"0::/a/b\n", fstest.MapFS{"a/b/memory.max": file("300\n"), "a/memory.max": file("max\n")}, 300},
		"of one above":      {"0::/a/b\n", fstest.MapFS{"a/b/memory.max": file("300\n"), "a/memory.max": file("200\n")}, 200},
		"of a container":    {"0::/\n", fstest.MapFS{"memory.max": file("100\n")}, 100},
		"of version 1":      {"5:cpu,memory:/x\n0::/\n", fstest.MapFS{"memory/x/memory.limit_in_bytes": file("400\n"), "memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 400},
		"another group's":   {"0::/a\n3:cpu:/b\n", fstest.MapFS{"memory/b/memory.limit_in_bytes": file("1\n"), "b/memory.max": file("1\n")}, math.MaxInt64},
		"out of the folder": {"0::/../..\n", fstest.MapFS{"memory.max": file("7\n")}, 7},
		"rubbish":           {"x\n0::\n", fstest.MapFS{"memory.max": file("-3\n")}, math.MaxInt64},
	} {
		if got := groupLimit(c.fs, c.self); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestBound: a kernel's heap grows no further than what it may have, unless Go was told another bound, or to have none.
func TestBound(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	t.Setenv("GOMEMLIMIT", "off")
	if Bound(); debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Errorf("no bound was wanted, and it is %d", debug.SetMemoryLimit(-1))
	}
	t.Setenv("GOMEMLIMIT", "")
	Bound()
	if got := debug.SetMemoryLimit(-1); got <= 2*Most() || got >= 3*Most() {
		t.Errorf("%d, where %d is a quarter", got, Most())
	}
	debug.SetMemoryLimit(12345 << 20)
	if Bound(); debug.SetMemoryLimit(-1) != 12345<<20 {
		t.Errorf("what was said is %d now", debug.SetMemoryLimit(-1))
	}
}
