package confine

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Held is the room on disk, in bytes, of files and directories that the sandbox's processes hold although no folder names
// them any more: deleted, or made without a name. What lies in TmpDir is not on disk. Files that are only mapped, on their way
// between sockets, or held by a process that cannot be looked into, cannot be measured; where there are some, what the disk has lost since the sandbox began counts
// instead, less known, which is what its folders were seen to hold.
func (p *Process) Held(known int64) int64 {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if over {
		return 0
	}
	h := held{files: map[[2]uint64]bool{}, sockets: map[string]bool{}}
	var tmp unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(p.pid)+"/root"+TmpDir, &tmp) == nil {
		h.tmp = tmp.Dev
	}
	tree := treeOf(p.pid)
	dirs := make([]string, len(tree))
	for i, pid := range tree {
		dirs[i], _ = living(pid)
		if err := h.open(dirs[i]); err != nil && (p.control == nil || pid != p.pid) { // its own init has no files
			h.unseen = true
		}
	}
	for _, dir := range dirs {
		h.unseen = h.unseen || h.maps(dir)
	}
	if free := freeSpace(p.cell.Config.scratch()); h.unseen && p.free > 0 && free > 0 {
		return max(h.sum, p.free-free-known)
	}
	return h.sum
}

// held adds up files without a name.
type held struct {
	tmp     uint64             // the device of TmpDir
	files   map[[2]uint64]bool // seen: device and inode
	sockets map[string]bool    // seen
	sum     int64
	unseen  bool // there are some that cannot be measured
}

// open looks at what a process has open. The error is that of openNames.
func (h *held) open(dir string) error {
	h.link(dir + "/exe")
	h.link(dir + "/cwd")
	names, err := openNames(dir)
	for _, name := range names {
		h.link(dir + "/fd/" + name)
		to, _ := os.Readlink(dir + "/fd/" + name)
		if !strings.HasPrefix(to, "socket:") || h.sockets[to] {
			continue
		}
		h.sockets[to] = true
		info, _ := readSmall(dir + "/fdinfo/" + name)
		h.unseen = h.unseen || number(string(info), "scm_fds") > 0
	}
	return err
}

// link adds the file or directory to which a link of /proc leads.
func (h *held) link(path string) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Dev == h.tmp {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink > 0 {
			return
		}
	case unix.S_IFDIR: // one that was there before has one link in an overlay, also when it is gone
		if to, _ := os.Readlink(path); st.Nlink > 0 && (st.Nlink > 1 || !strings.HasSuffix(to, " (deleted)")) {
			return
		}
	default:
		return
	}
	if id := [2]uint64{st.Dev, st.Ino}; !h.files[id] {
		h.files[id] = true
		h.sum += st.Blocks * 512 //nolint:unconvert // the unit of st_blocks
	}
}

// maps says whether a process has a deleted file of its folders mapped that nobody has open.
func (h *held) maps(dir string) bool {
	b, _ := readSmall(dir + "/maps")
	for line := range bytes.Lines(b) {
		line, deleted := bytes.CutSuffix(bytes.TrimSpace(line), []byte(" (deleted)"))
		if !deleted || !bytes.Contains(line, []byte(" "+WorkspaceDir+"/")) && !bytes.Contains(line, []byte(" "+VolumesDir+"/")) {
			continue
		}
		if f := bytes.Fields(line); len(f) > 4 && !h.has(string(f[4])) {
			return true
		}
	}
	return false
}

// has says whether a file with this inode was added.
func (h *held) has(inode string) bool {
	n, _ := strconv.ParseUint(inode, 10, 64)
	for id := range h.files {
		if id[1] == n {
			return true
		}
	}
	return false
}

// freeSpace is that of the disk on which changes of a sandbox lie; 0: there are none, or nobody can say.
func freeSpace(scratch []string) int64 {
	var st unix.Statfs_t
	if len(scratch) == 0 || unix.Statfs(scratch[0], &st) != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize //nolint:gosec // a size
}
