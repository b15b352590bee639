package setup

import (
	"path/filepath"
	"runtime"

	"agentkernel"
)

// Platform is an operating system and processor for which the engine is published.
type Platform struct {
	GOOS, GOARCH string
	Package      string // npm package that holds the executable
	Tested       bool   // this project's tests run there; only such platforms are in the lock file
	SHA256       string // of the executable, if known
}

// lockedPlatform is the one of the lock file.
var lockedPlatform = Platform{GOOS: "linux", GOARCH: "amd64", Package: "@pydantic/monty-linux-x64-gnu", Tested: true,
	SHA256: "b634e4fe49bdd2f933e2f5ecf32633db4273107a3a693946a4e3c9b0d01ba45a"}

// platforms are all; each is one entry.
var platforms = []Platform{
	lockedPlatform,
	{GOOS: "linux", GOARCH: "arm64", Package: "@pydantic/monty-linux-arm64-gnu"},
	{GOOS: "darwin", GOARCH: "arm64", Package: "@pydantic/monty-darwin-arm64"},
	{GOOS: "darwin", GOARCH: "amd64", Package: "@pydantic/monty-darwin-x64"},
}

// executable is the path of the engine below a directory that npm installed into.
func (p Platform) executable(dir string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(p.Package), "monty")
}

// PlatformOf finds the engine of a platform. CodeUnsupported where there is none.
func PlatformOf(goos, goarch string) (Platform, error) {
	for _, p := range platforms {
		if p.GOOS == goos && p.GOARCH == goarch {
			return p, nil
		}
	}
	return Platform{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "setup",
		"there is no Monty engine for %s/%s", goos, goarch).
		WithHint("use Linux (glibc) or macOS on x86-64 or arm64, or build Monty yourself and name it with the setting `engine`")
}

// here is the platform of this binary. On Linux it wants the GNU C library, which musl systems lack.
func here() (Platform, error) {
	p, err := PlatformOf(runtime.GOOS, runtime.GOARCH)
	if err == nil && p.GOOS == "linux" && isMusl("/") {
		err = agentkernel.Errorf(agentkernel.CodeUnsupported, "setup", "this system uses the musl C library (Alpine?); the Monty engine is built for glibc").
			WithHint("use a Debian, Ubuntu or Fedora image, or build Monty for musl and name it with the setting `engine`")
	}
	return p, err
}

// isMusl says whether the dynamic loader below root is musl's and no GNU one is there.
func isMusl(root string) bool {
	return found(root, "lib/ld-musl-*.so.1") && !found(root, "lib64/ld-linux-*.so.*") && !found(root, "lib/ld-linux-*.so.*")
}

func found(root, pattern string) bool {
	m, err := filepath.Glob(filepath.Join(root, pattern))
	return err == nil && len(m) > 0
}
