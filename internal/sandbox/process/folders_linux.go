package process

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// addFolders puts the folders of the host that a program sees into the configuration of its walls. disk is the most that
// one file may have.
func addFolders(c *confine.Config, mounts []agentkernel.Mount, disk int64) {
	for _, m := range mounts {
		access := confine.Overlay
		switch {
		case m.ReadOnly:
			access = confine.ReadOnly
		case m.Own:
			access = confine.ReadWrite
		}
		if m.Volume != "" {
			c.Volumes = append(c.Volumes, confine.Volume{Name: m.Volume, Source: m.Source, ReadOnly: m.ReadOnly, Scratch: m.Scratch, Own: m.Own, Hidden: m.Hidden})
			continue
		}
		c.Workspace = &confine.Workspace{Source: m.Source, Access: access, Scratch: m.Scratch, Own: m.Own, Hidden: m.Hidden}
		c.Program.Dir = confine.WorkspaceDir
	}
	if len(mounts) > 0 && c.Limits.FileSize == 0 {
		c.Limits.FileSize = min(disk, maxFile)
	}
}

// shownFolders leaves out an optional folder that this machine cannot show, and says why not: root's sandboxes need a file
// system that shows files under another owner.
func (b *Backend) shownFolders(ctx context.Context, mounts []agentkernel.Mount) ([]agentkernel.Mount, error) {
	i := slices.IndexFunc(mounts, func(m agentkernel.Mount) bool { return m.Optional })
	if i < 0 {
		return mounts, nil
	}
	err := b.cfg.Spawner.CanShow(ctx, mounts[i].Source)
	if err != nil {
		return slices.Delete(slices.Clone(mounts), i, i+1), err
	}
	return mounts, nil
}

// folderEnvironment is what programs need to know of the workspace. Git refuses a repository that belongs to somebody
// else, since its settings may name commands: here they run behind the walls, as the program does. It is told by
// variables, which hold for this program alone.
func folderEnvironment(mounts []agentkernel.Mount) []string {
	i := slices.IndexFunc(mounts, func(m agentkernel.Mount) bool { return m.Volume == "" })
	if i < 0 {
		return nil
	}
	env := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=" + confine.WorkspaceDir, "GIT_PAGER=cat"}
	if mounts[i].ReadOnly {
		env = append(env, "GIT_OPTIONAL_LOCKS=0") // it would like to note what it has looked at
	}
	return env
}

// maxFile is the largest limit for one file that walls take.
const maxFile = 1 << 44

// planKey is what decides the steps of a child's plan. Where the folders lie is no part of it: the steps name them, and
// their descriptors come with each fork.
type planKey struct {
	limits  agentkernel.Limits
	folders string
}

func planKeyOf(limits agentkernel.Limits, mounts []agentkernel.Mount) planKey {
	k := planKey{limits: wallLimits(limits)}
	if len(mounts) == 0 {
		return k
	}
	var b strings.Builder
	for _, m := range mounts {
		fmt.Fprintf(&b, "%s %t %t %t %q;", m.Volume, m.ReadOnly, m.Own, m.Scratch != "", m.Hidden)
	}
	k.limits.Disk, k.folders = limits.Disk, b.String()
	return k
}

// nameless is a plan as a zygote needs it: its children, who can read what the zygote has in memory, have no business
// with where things lie on the host.
func nameless(p *confine.Plan) *confine.Plan {
	out := *p
	out.Cgroups, out.Trees = nil, make([]confine.Tree, len(p.Trees))
	for i, t := range p.Trees {
		out.Trees[i] = confine.Tree{Name: t.Name}
	}
	return &out
}

// Held is what the program holds in files without a name; see agentkernel.Holder.
func (s *sandbox) Held(known int64) int64 {
	if s.c.process == nil {
		return 0
	}
	return s.c.process.Held(known)
}

// Held is what the program holds in files without a name; see agentkernel.Holder.
func (w *whole) Held(known int64) int64 {
	w.mu.Lock()
	p := w.process
	w.mu.Unlock()
	if p == nil {
		return 0
	}
	return p.Held(known)
}

// Gone is closed when nothing of the program runs any more; see agentkernel.Ender.
func (s *sandbox) Gone() <-chan struct{} { return s.c.ended }

// Gone is closed when nothing of the program runs any more; see agentkernel.Ender.
func (w *whole) Gone() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil {
		return w.process.Done()
	}
	never := make(chan struct{}) // it was not started
	close(never)
	return never
}
