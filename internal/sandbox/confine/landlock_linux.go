package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// newestLandlock is the newest ABI that this package knows; more rights exist later, and stay open.
const newestLandlock = 6

// landlockRights are all rights to files that an ABI knows, in order of the ABI that brought them
// (landlock(7)).
func landlockRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

const (
	landlockRead    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	landlockFD      = 250 // where the directory of a rule is, so that its number can stand in the rule
)

// landlock adds the second wall: even if a mount were wrong, only the writable places can be written, no TCP
// connection made and no signal or abstract socket reach out. abi is 0 where the kernel has none.
func (b *builder) landlock(abi int, writable []string) {
	if abi == 0 {
		return
	}
	b.wall = wallLandlock
	abi = min(abi, newestLandlock)
	rights := landlockRights(abi)
	attr := binary.NativeEndian.AppendUint64(nil, rights)
	if abi >= 4 {
		attr = binary.NativeEndian.AppendUint64(attr, unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP)
	}
	if abi >= 6 {
		attr = binary.NativeEndian.AppendUint64(attr, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL)
	}
	b.do("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, Bytes(attr), Num(len(attr)), Num(0)).Save = "ruleset"
	b.landlockRule("/", landlockRead)
	if b.cfg.Kind != Bare {
		b.landlockRule("/dev", rights&(landlockRead|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_TRUNCATE|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV))
	}
	for _, dir := range writable {
		b.landlockRule(dir, rights&^(landlockDevices|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV))
	}
	b.do("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, Saved("ruleset"), Num(0))
	b.do("close", unix.SYS_CLOSE, Saved("ruleset"))
	b.do("close", unix.SYS_CLOSE, Num(landlockFD))
}

func (b *builder) landlockRule(dir string, rights uint64) {
	rule := binary.NativeEndian.AppendUint64(nil, rights)
	rule = binary.NativeEndian.AppendUint32(rule, landlockFD)
	b.do("openat", unix.SYS_OPENAT, cwd, Str(dir), Num(unix.O_PATH|unix.O_CLOEXEC), Num(0)).Save = "dir"
	b.do("dup3", unix.SYS_DUP3, Saved("dir"), Num(landlockFD), Num(unix.O_CLOEXEC))
	b.do("close", unix.SYS_CLOSE, Saved("dir"))
	b.do("landlock_add_rule", unix.SYS_LANDLOCK_ADD_RULE, Saved("ruleset"), Num(unix.LANDLOCK_RULE_PATH_BENEATH), Bytes(rule), Num(0))
}
