package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentkernel"
)

// maxSocketPath is the longest path that a socket address holds everywhere: sun_path has 108 bytes on
// Linux and 104 on macOS, one of them the closing zero.
const maxSocketPath = 103

// shortRoot is fixed, not $TMPDIR or $XDG_RUNTIME_DIR: commands of one user must find the same socket from
// a login shell, a cron job and a container's exec alike, and must still find it after the user logged out.
const shortRoot = "/tmp"

// socketPath chooses the socket's path, and makes the short directory if that is needed.
func socketPath(dir string) (string, error) {
	path := filepath.Join(dir, socketFile)
	if len(path) <= maxSocketPath {
		return path, nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", openError(dir, "cannot be resolved", err)
	}
	short := filepath.Join(shortRoot, fmt.Sprintf("agentkernel-%d", os.Geteuid()))
	if err := privateDir(short); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(real))
	return filepath.Join(short, hex.EncodeToString(sum[:12])+".sock"), nil
}

// privateDir makes a directory in a place where anyone may make one, and trusts it only if it is ours.
func privateDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return openError(path, "cannot be created", err)
	}
	info, err := os.Lstat(path) // not Stat: a link planted by someone else is not ours
	if err != nil {
		return openError(path, "cannot be read", err)
	}
	uid, known := owner(info)
	if !info.IsDir() || !known || uid != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s is not a private directory of this user, so no socket is put there", path).
			WithHint("choose a data directory with a path of less than %d bytes with --home or %s", maxSocketPath-len(socketFile), EnvHome)
	}
	return nil
}
