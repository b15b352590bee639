package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/mounts"
)

// seenIn says where in a directory, below it, a masked one or a part of it is seen; within, that it lies in a masked one.
func (b *builder) seenIn(source string) (within bool, at []string, err error) {
	if len(b.cfg.Masked) == 0 {
		return false, nil, nil
	}
	if b.mounted == nil {
		table, err := mounts.Read()
		if err != nil {
			return false, nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the mounts of this machine cannot be read: %w", err)
		}
		b.mounted = table
	}
	for _, m := range b.cfg.Masked {
		in, below := b.mounted.Overlap(source, m)
		if inside(m, source) { // whatever is mounted there
			below = append(below, strings.TrimPrefix(m, strings.TrimSuffix(source, "/")+"/"))
		}
		within, at = within || in || m == source || inside(source, m), append(at, below...)
	}
	slices.Sort(at)
	return within, slices.Compact(at), nil
}

// mask covers what of the masked directories lies in source, which is seen at target. inner says that source may lie in
// one itself: the kernel has made it there for sandboxes.
func (b *builder) mask(source, target string, inner bool) error {
	within, at, err := b.seenIn(source)
	if err != nil {
		return err
	}
	if within {
		if inner && !slices.Contains(b.cfg.Masked, source) {
			return nil
		}
		return invalid("%s is the kernel's own; no sandbox may see it", source)
	}
	covered := ""
	for _, p := range at {
		switch info, err := os.Stat(filepath.Join(source, p)); {
		case covered != "" && inside(p, covered), errors.Is(err, os.ErrNotExist):
			continue // another mount hides it
		case err == nil && !info.IsDir():
			return invalid("%s is the kernel's own; no sandbox may see it", filepath.Join(source, p))
		}
		covered = p
		b.mount(Str("tmpfs"), b.at(target+"/"+p), "tmpfs",
			unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "size=4k,nr_inodes=2,mode=555")
	}
	return nil
}

// files mounts workspace and volumes.
func (b *builder) files(id Identity, root bool, writable *[]string) error {
	b.wall = wallFiles
	if b.cfg.Workspace != nil {
		if err := b.workspace(id, root, writable); err != nil {
			return err
		}
	}
	if len(b.cfg.Volumes) == 0 {
		return nil
	}
	if b.cfg.Kind == Child { // the zygote's root is read-only
		b.mount(Str("tmpfs"), b.at(VolumesDir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k,nr_inodes=256")
	} else {
		b.mkdir(VolumesDir)
	}
	for _, v := range b.cfg.Volumes {
		source, owner, err := directory("volume "+v.Name, v.Source)
		if err != nil {
			return err
		}
		target := VolumesDir + "/" + v.Name
		b.mkdir(target)
		if v.Scratch != "" {
			err = b.overlay("volume "+v.Name, source, v.Scratch, target, func(t Tree, of ownerOf) Tree { return t.shown(root, of, id) }, owner)
		} else {
			b.tree(Tree{Name: b.treeName("volume"), Source: source, ReadOnly: v.ReadOnly}.shown(root, owner, id), target)
		}
		if err != nil {
			return err
		}
		if err := b.mask(source, target, v.Own); err != nil {
			return err
		}
		b.hide(target, v.Hidden)
		if !v.ReadOnly {
			*writable = append(*writable, target)
		}
	}
	if b.cfg.Kind == Child {
		b.mount(Str(""), b.at(VolumesDir), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	return nil
}

func (b *builder) workspace(id Identity, root bool, writable *[]string) error {
	w := b.cfg.Workspace
	source, owner, err := directory("workspace", w.Source)
	if err != nil {
		return err
	}
	if !w.Own {
		switch within, at, err := b.seenIn(source); {
		case err != nil:
			return err
		case within:
			return invalid("the workspace %s is inside the kernel's data directory", source).WithHint("choose another directory")
		case w.Access == ReadWrite && len(at) > 0:
			return invalid("the workspace %s holds the kernel's data directory, and would be written directly", source).
				WithHint("choose a smaller directory, or use it as an overlay or read-only")
		}
	}
	show := func(t Tree, of ownerOf) Tree { return t.shown(root, of, id) }
	b.mkdir(WorkspaceDir)
	if w.Access != ReadOnly {
		*writable = append(*writable, WorkspaceDir)
	}
	if w.Access != Overlay {
		b.tree(show(Tree{Name: "workspace", Source: source, ReadOnly: w.Access == ReadOnly}, owner), WorkspaceDir)
	} else if err := b.overlay("workspace", source, w.Scratch, WorkspaceDir, show, owner); err != nil {
		return err
	}
	if err := b.mask(source, WorkspaceDir, w.Own); err != nil {
		return err
	}
	b.hide(WorkspaceDir, w.Hidden)
	return nil
}

// hide covers files and directories of the folder at target. A file is covered by a device on a mount without devices, which
// cannot be opened: so whoever asks for it hears that, and who looks through all files passes it over. What has gone
// meanwhile need not be covered.
func (b *builder) hide(target string, paths []string) {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	gone := []int{int(unix.ENOENT)}
	for _, p := range paths {
		at := b.at(target + "/" + strings.TrimSuffix(p, "/"))
		if strings.HasSuffix(p, "/") {
			b.do("mount", unix.SYS_MOUNT, Str("tmpfs"), at, Str("tmpfs"), Num(flags), Str("size=4k,nr_inodes=2,mode=0")).OK = gone
			continue
		}
		b.do("mount", unix.SYS_MOUNT, b.at("/dev/null"), at, Str(""), Num(unix.MS_BIND), Str("")).OK = gone
		b.do("mount", unix.SYS_MOUNT, Str(""), at, Str(""), Num(unix.MS_REMOUNT|unix.MS_BIND|flags), Str("")).OK = gone
	}
}

// overlay shows source at target with scratch above it, which takes the changes.
func (b *builder) overlay(what, source, scratch, target string, show func(Tree, ownerOf) Tree, owner ownerOf) error {
	scratch, scratchOwner, err := directory("the scratch directory of the "+what, scratch)
	if err != nil {
		return err
	}
	if inside(scratch, source) || inside(source, scratch) || scratch == source {
		return invalid("the %s %s and the directory that takes its changes, %s, hold one another", what, source, scratch).
			WithHint("choose another folder, or keep the kernel's data directory elsewhere")
	}
	b.mkdir(lowerDir)
	b.mkdir(upperDir)
	b.tree(show(Tree{Name: b.treeName("lower"), Source: source, ReadOnly: true}, owner), lowerDir)
	b.tree(show(Tree{Name: b.treeName("upper"), Source: scratch}, scratchOwner), upperDir)
	b.mount(Str("overlay"), b.at(target), "overlay", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("lowerdir=%[1]s,upperdir=%[2]s/upper,workdir=%[2]s/work,userxattr", *b.at(lowerDir).Str, *b.at(upperDir).Str))
	for _, dir := range []string{lowerDir, upperDir} {
		b.do("umount2", unix.SYS_UMOUNT2, b.at(dir), Num(unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// shown is the tree as a sandbox with this identity is to see it: what is its owner's is the sandbox's.
func (t Tree) shown(root bool, of ownerOf, id Identity) Tree {
	if root {
		t.Owner = of.shownAs(id)
	}
	return t
}

// ownerOf is who owns a directory on disk.
type ownerOf struct{ uid, gid uint32 }

func (o ownerOf) shownAs(id Identity) *Owner {
	return &Owner{HostUID: o.uid, HostGID: o.gid, ShownUID: id.UID, ShownGID: id.GID}
}

// directory looks at a directory that a sandbox is to see, and gives its path without symbolic links above
// it. The directory itself must not be one.
func directory(what, path string) (string, ownerOf, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", ownerOf{}, missing(what, path, err)
	case info.Mode()&os.ModeSymlink != 0:
		return "", ownerOf{}, invalid("%s: %s is a symbolic link", what, path).WithHint("name the directory itself")
	case !info.IsDir():
		return "", ownerOf{}, invalid("%s: %s is not a directory", what, path)
	}
	source, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", ownerOf{}, missing(what, path, err)
	}
	if source == "/" {
		return "", ownerOf{}, invalid("%s: the whole machine cannot be handed to a sandbox", what)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ownerOf{}, invalid("%s: nobody can say who owns %s", what, path)
	}
	return source, ownerOf{st.Uid, st.Gid}, nil
}
