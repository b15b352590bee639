package process

import (
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/confine"
)

// leftBehind names files in /tmp, where a program without a folder works: some of them, in order. Without walls (p is nil) that
// folder is everybody's. What a program calls its files may be anything.
func leftBehind(req *agentkernel.StartRequest, p *confine.Process) []string {
	const longest = 100
	if p == nil || slices.ContainsFunc(req.Mounts, func(m agentkernel.Mount) bool { return m.Volume == "" }) {
		return nil
	}
	names := slices.DeleteFunc(p.InTmp(), func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "tmp") // hidden, of tempfile or of mktemp
	})
	slices.Sort(names)
	names = names[:min(len(names), agentkernel.MaxLeft+1)]
	for i, name := range names {
		names[i] = clip.At(strings.ToValidUTF8(name, "\uFFFD"), longest)
	}
	return names
}
