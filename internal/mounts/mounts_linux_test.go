package mounts

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOverlap(t *testing.T) {
	const info = `1 0 8:1 / / rw - ext4 /dev/a rw
2 1 8:1 /home/u/state /none/bind rw - ext4 /dev/a rw
3 1 8:1 /home/u /none/parent rw - ext4 /dev/a rw
4 1 8:1 /home/u/state/sub /none/sub rw - ext4 /dev/a rw
5 1 8:2 / /home/u/state/blobs rw - ext4 /dev/b rw
6 1 8:2 /x /none/disk\040two rw - ext4 /dev/b rw
7 1 8:1 /home/u/state/key /none/file/key rw - ext4 /dev/a rw
8 1 8:3 / /none/other rw - tmpfs t rw
`
	table := parse(info)
	for path, want := range map[string]struct {
		within bool
		at     []string
	}{
		"/none/bind":       {true, nil},
		"/none/bind/deep":  {true, nil},
		"/none/sub":        {true, nil},
		"/none/parent":     {false, []string{"state"}},
		"/none/disk two":   {true, nil},
		"/none/file":       {false, []string{"key"}},
		"/none/other":      {false, nil},
		"/none/home":       {false, nil},
		"/home/u/state":    {true, nil},
		"/home/u/state/x":  {true, nil},
		"/home/u/statefar": {false, nil},
		"/home/u":          {false, []string{"state", "state/blobs"}},
	} {
		within, at := table.Overlap(path, "/home/u/state")
		if within != want.within || !reflect.DeepEqual(at, want.at) {
			t.Errorf("%s: within %v, at %q; want %v", path, within, at, want)
		}
	}
}

func TestOverlapOfABindMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	state, bind := filepath.Join(dir, "home", "state"), filepath.Join(dir, "bind")
	for _, d := range []string{state, bind} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(filepath.Dir(state), bind, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(bind, unix.MNT_DETACH) })
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if within, _ := table.Overlap(filepath.Join(bind, "state"), state); !within {
		t.Error("a directory under its second name is not known")
	}
	if within, at := table.Overlap(bind, state); within || !reflect.DeepEqual(at, []string{"state"}) {
		t.Errorf("within %v, at %q", within, at)
	}
}
