package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// legacyCalls: this architecture never had the old ones.
var legacyCalls []uint32

// bareLegacy: as above.
var bareLegacy []uint32

func legacyChecks() map[uint32]check { return nil }
