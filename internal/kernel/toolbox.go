package kernel

import (
	"context"

	"agentkernel"
)

// SearchTools finds tools by what somebody wants to do.
func (k *Kernel) SearchTools(ctx context.Context, files []string, q agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ToolMatches{}, err
	}
	src, err := k.toolSource(&agentkernel.Spec{Tools: files})
	if err != nil {
		return agentkernel.ToolMatches{}, err
	}
	if _, none := src.(noTools); none && len(q.Modules) > 0 && k.cfg.Tools != nil {
		if src, err = k.cfg.Tools(nil); err != nil {
			return agentkernel.ToolMatches{}, err
		}
	}
	if s, ok := src.(agentkernel.ToolSearcher); ok {
		return s.SearchTools(ctx, q)
	}
	if _, none := src.(noTools); none {
		return agentkernel.ToolMatches{Tools: []agentkernel.Tool{}}, nil
	}
	return agentkernel.ToolMatches{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "tools", "the tools of this kernel cannot be searched").
		WithHint("agentkernel tools list")
}

// AcceptTools accepts tools as they are now.
func (k *Kernel) AcceptTools(ctx context.Context, files []string, server string, names []string) (int, error) {
	src, err := k.toolSource(&agentkernel.Spec{Tools: files})
	if err != nil {
		return 0, err
	}
	if p, ok := src.(agentkernel.ToolPinner); ok {
		return p.AcceptTools(ctx, server, names...)
	}
	return 0, agentkernel.Errorf(agentkernel.CodeUnsupported, "tools", "this kernel does not remember what tools looked like")
}
