// Package setup installs the engine that runs programs, finds it, and examines whether AgentKernel works
// here (`agentkernel setup` and `agentkernel doctor`).
//
//	platform.go  which npm package holds the engine of a platform
//	find.go      where the engine is
//	install.go   npm into a temporary directory, checks, one rename
//	verify.go    is this file the engine, and does it start
//	doctor.go    the report; checks_*.go hold its checks, one entry of the table each
//
// The package must never run a program, change the system outside the data directory and the directory of engines, or open a network
// connection of its own: what is downloaded, npm downloads, from where the user's npm is told to.
package setup

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// The pinned files are also what the Makefile installs for tests.
var (
	//go:embed engine/package.json
	packageJSON []byte
	//go:embed engine/package-lock.json
	packageLock []byte
)

// EngineVersion is the version of Monty that is installed: the one in the embedded package.json.
func EngineVersion() string {
	var p struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	// The file is part of this package; a test holds that it parses and pins one version.
	_ = json.Unmarshal(packageJSON, &p)
	return strings.TrimSpace(p.Dependencies[lockedPlatform.Package])
}
