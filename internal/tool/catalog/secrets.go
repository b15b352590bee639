package catalog

import (
	"context"

	"agentkernel"
)

// Gone is what the source behind the catalog says.
func (s *source) Gone(ctx context.Context) error {
	if h, ok := s.ToolSource.(agentkernel.ToolHosts); ok {
		return h.Gone(ctx)
	}
	return nil
}

// Digests are those of the source behind the catalog.
func (s *source) Digests() map[string]string {
	if d, ok := s.ToolSource.(agentkernel.ToolDigester); ok {
		return d.Digests()
	}
	return nil
}

// Redaction is that of the source behind the catalog, which keeps no values itself.
func (s *source) Redaction(ctx context.Context) (agentkernel.Redaction, error) {
	if keeper, ok := s.ToolSource.(agentkernel.SecretKeeper); ok {
		return keeper.Redaction(ctx)
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "export", "these tools keep their secrets to themselves")
}
