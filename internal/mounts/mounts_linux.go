package mounts

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Table is what is mounted where, as this thread sees it.
type Table []mount

// mount is a line of mountinfo (proc_pid_mountinfo(5)): the directory root of the file system dev is seen at point.
type mount struct {
	id               uint64
	dev, root, point string
}

// Read reads the table.
func Read() (Table, error) {
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parse(string(b)), nil
}

func parse(mountinfo string) (t Table) {
	for line := range strings.SplitSeq(mountinfo, "\n") {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		id, _ := strconv.ParseUint(f[0], 10, 64)
		t = append(t, mount{id, f[2], unescape.Replace(f[3]), unescape.Replace(f[4])})
	}
	return t
}

// unescape undoes how mountinfo writes what would end a field.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// place is where files lie, whatever paths lead to them: a path in a file system.
type place struct{ dev, path string }

// spot is a place that is seen at a path below some directory; "" is the directory itself.
type spot struct {
	place
	at string
}

// of says where path lies.
func (t Table) of(path string) (place, bool) {
	var st unix.Statx_t
	known := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st) == nil && st.Mask&unix.STATX_MNT_ID != 0
	var best *mount
	for i := range t {
		m := &t[i]
		if _, ok := below(path, m.point); !ok || known && m.id != st.Mnt_id {
			continue
		}
		if best == nil || len(m.point) >= len(best.point) { // of two at one point the later covers the other
			best = m
		}
	}
	if best == nil {
		return place{}, false
	}
	rest, _ := below(path, best.point)
	return place{best.dev, join(best.root, rest)}, true
}

// spots are all places that are seen in a directory: its own, and those of mounts below it.
func (t Table) spots(dir string) (list []spot) {
	if p, ok := t.of(dir); ok {
		list = append(list, spot{p, ""})
	}
	for _, m := range t {
		if rest, ok := below(m.point, dir); ok && rest != "" {
			list = append(list, spot{place{m.dev, m.root}, rest})
		}
	}
	return list
}

// Overlap compares what is seen at path with what is seen in dir; both are absolute, without symbolic links. Within says
// that path is dir or lies in it. Otherwise at are the paths below path at which dir, or a part of it, is seen.
func (t Table) Overlap(path, dir string) (within bool, at []string) {
	found := map[string]bool{}
	own := t.spots(dir)
	for _, seen := range t.spots(path) {
		for _, p := range own {
			if seen.dev != p.dev {
				continue
			}
			var where string
			if _, ok := below(seen.path, p.path); ok {
				where = seen.at
			} else if rest, ok := below(p.path, seen.path); ok {
				where = strings.TrimPrefix(join(seen.at, rest), "/")
			} else {
				continue
			}
			if where == "" {
				return true, nil
			}
			if !found[where] {
				found[where] = true
				at = append(at, where)
			}
		}
	}
	return false, at
}

// below is the rest of a path that is dir or lies below it.
func below(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func join(dir, rest string) string {
	if rest == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + rest
}
