package policy

import (
	"context"
	"io"

	"agentkernel"
)

// Export exports a process of the namespace. Unredacted it shows no more than the journal does.
func (s *scope) Export(ctx context.Context, pid agentkernel.PID, o agentkernel.ExportOptions) ([]byte, error) {
	if err := s.own(ctx, "export", pid, agentkernel.RightRead); err != nil {
		return nil, err
	}
	return s.k.Export(ctx, pid, o)
}

// Import puts a recording into the namespace.
func (s *scope) Import(ctx context.Context, file []byte, o agentkernel.ImportOptions) (agentkernel.Process, error) {
	if err := s.may("import", agentkernel.RightAdmin); err != nil {
		return agentkernel.Process{}, err
	}
	if err := s.into("import", o.Namespace); err != nil {
		return agentkernel.Process{}, err
	}
	o.Namespace = s.namespace
	return s.k.Import(ctx, file, o)
}

// Replay runs a recording, which reaches nothing but an environment that is named.
func (s *scope) Replay(ctx context.Context, file []byte, o agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	rights := []agentkernel.Right{agentkernel.RightRun}
	if o.Environment != "" {
		rights = append(rights, agentkernel.RightHost)
	}
	if err := s.may("replay", rights...); err != nil {
		return agentkernel.Verdict{}, err
	}
	return s.k.Replay(ctx, file, o)
}

// Tools are of no namespace: a file that is named configures them. To list them starts their
// servers.

func (s *scope) ToolServers(ctx context.Context, files []string) ([]agentkernel.ToolServer, error) {
	if err := s.may("tools", agentkernel.RightTools); err != nil {
		return nil, err
	}
	return s.k.ToolServers(ctx, files)
}

func (s *scope) ListTools(ctx context.Context, files []string, server string) ([]agentkernel.Tool, error) {
	if err := s.may("tools", agentkernel.RightTools); err != nil {
		return nil, err
	}
	return s.k.ListTools(ctx, files, server)
}

func (s *scope) SearchTools(ctx context.Context, files []string, q agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	if err := s.may("tools", agentkernel.RightTools); err != nil {
		return agentkernel.ToolMatches{}, err
	}
	return s.k.SearchTools(ctx, files, q)
}

func (s *scope) AcceptTools(ctx context.Context, files []string, server string, names []string) (int, error) {
	if err := s.may("tools", agentkernel.RightTools); err != nil {
		return 0, err
	}
	return s.k.AcceptTools(ctx, files, server, names)
}

// reads says which namespace is read; not here: there is nothing that the principal could see.
func (s *scope) reads(op, namespace, what string) error {
	if err := s.may(op, agentkernel.RightRead); err != nil {
		return err
	}
	if namespace != "" && namespace != s.namespace {
		return agentkernel.Errorf(agentkernel.CodeNotFound, op, "there is no %s", what)
	}
	return nil
}

// SaveSkill keeps a skill in the namespace.
func (s *scope) SaveSkill(ctx context.Context, skill agentkernel.Skill) (agentkernel.Skill, error) {
	if err := s.may("skill", agentkernel.RightRun); err != nil {
		return agentkernel.Skill{}, err
	}
	if err := s.into("skill", skill.Namespace); err != nil {
		return agentkernel.Skill{}, err
	}
	skill.Namespace = s.namespace
	return s.k.SaveSkill(ctx, skill)
}

// Skill is one skill of the namespace.
func (s *scope) Skill(ctx context.Context, namespace, name string, version int) (agentkernel.Skill, error) {
	if err := s.reads("skill", namespace, "skill of that name"); err != nil {
		return agentkernel.Skill{}, err
	}
	return s.k.Skill(ctx, s.namespace, name, version)
}

// Skills lists skills of the namespace. Another one has none.
func (s *scope) Skills(ctx context.Context, q agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	if err := s.may("skill", agentkernel.RightRead); err != nil {
		return nil, err
	}
	if q.Namespace != "" && q.Namespace != s.namespace {
		return nil, nil
	}
	q.Namespace = s.namespace
	return s.k.Skills(ctx, q)
}

// DeleteSkill deletes a skill of the namespace.
func (s *scope) DeleteSkill(ctx context.Context, namespace, name string) error {
	if err := s.may("skill", agentkernel.RightRun); err != nil {
		return err
	}
	if err := s.into("skill", namespace); err != nil {
		return err
	}
	return s.k.DeleteSkill(ctx, s.namespace, name)
}

// Document is one document of the namespace, whoever there it belongs to.
func (s *scope) Document(ctx context.Context, namespace, owner, name string) (agentkernel.Document, error) {
	if err := s.reads("document", namespace, "document of that name"); err != nil {
		return agentkernel.Document{}, err
	}
	return s.k.Document(ctx, s.namespace, owner, name)
}

// PutDocument replaces a document of the namespace.
func (s *scope) PutDocument(ctx context.Context, d agentkernel.Document) (agentkernel.Document, error) {
	if err := s.may("document", agentkernel.RightRun); err != nil {
		return agentkernel.Document{}, err
	}
	if err := s.into("document", d.Namespace); err != nil {
		return agentkernel.Document{}, err
	}
	d.Namespace = s.namespace
	return s.k.PutDocument(ctx, d)
}

// Changes says what a process of the namespace has done to its files.
func (s *scope) Changes(ctx context.Context, pid agentkernel.PID) (agentkernel.Changes, error) {
	if err := s.own(ctx, "changes", pid, agentkernel.RightRead); err != nil {
		return agentkernel.Changes{}, err
	}
	return s.k.Changes(ctx, pid)
}

// OpenFile opens a file of a process of the namespace.
func (s *scope) OpenFile(ctx context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	if err := s.own(ctx, "file", pid, agentkernel.RightRead); err != nil {
		return agentkernel.File{}, err
	}
	return s.k.OpenFile(ctx, pid, name)
}

// Apply writes to folders of the host.
func (s *scope) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	if err := s.own(ctx, "apply", pid, agentkernel.RightHost); err != nil {
		return agentkernel.Applied{}, err
	}
	return s.k.Apply(ctx, pid, o)
}

// Discard throws away what a process of the namespace would have written to folders of the host.
func (s *scope) Discard(ctx context.Context, pid agentkernel.PID) error {
	if err := s.own(ctx, "discard", pid, agentkernel.RightHost); err != nil {
		return err
	}
	return s.k.Discard(ctx, pid)
}

// Backup is of all namespaces.
func (s *scope) Backup(context.Context, io.Writer) error { return s.ownerAlone("backup") }

// Storage is of all namespaces.
func (s *scope) Storage(context.Context) (agentkernel.Storage, error) {
	return agentkernel.Storage{}, s.ownerAlone("storage")
}

// Prune forgets processes of the namespace. What else it removes may have been left by other
// namespaces, and is not counted.
func (s *scope) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	if err := s.may("prune", agentkernel.RightAdmin); err != nil {
		return agentkernel.Pruned{}, err
	}
	if err := s.into("prune", o.Namespace); err != nil {
		return agentkernel.Pruned{}, err
	}
	o.Namespace = s.namespace
	out, err := s.k.Prune(ctx, o)
	if !o.DryRun {
		out.Removed, out.Freed = agentkernel.Removed{Processes: out.Processes}, 0
	}
	return out, err
}
