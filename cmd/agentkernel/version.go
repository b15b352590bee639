package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"agentkernel"
)

// version is set at link time for releases: -ldflags "-X main.version=1.2.3".
var version = "0.1.0"

type versionCmd struct{}

func (versionCmd) Help() string {
	return examples("agentkernel version", "agentkernel version --json")
}

func (versionCmd) Run(a *app) error {
	v := versions()
	if a.cli.JSON {
		return a.printJSON(v)
	}
	text := fmt.Sprintf("agentkernel %s (api %d, %s, %s/%s", v.Version, v.API, v.Go, v.OS, v.Arch)
	if v.Commit != "" {
		text += ", commit " + v.Commit
	}
	a.con.Out(text + ")\n")
	return a.outputError()
}

func versions() versionInfo {
	return versionInfo{Version: version, API: agentkernel.APIVersion, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Commit: commit()}
}

type versionInfo struct {
	Version string `json:"version"`
	API     int    `json:"api"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Commit  string `json:"commit,omitempty"`
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
