package kernel

import (
	"slices"

	"agentkernel"
)

// elsewherePiece refuses a piece for another backend than its session is on.
func (k *Kernel) elsewherePiece(p *process, piece *agentkernel.Piece) error {
	p.mu.Lock()
	have := p.backendName()
	p.mu.Unlock()
	if piece.Backend == "" || piece.Backend == autoBackend || piece.Backend == have {
		return nil
	}
	if !slices.Contains(k.backendNames(), piece.Backend) {
		return k.noBackend(piece.Backend)
	}
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "session %d is one of the %s backend", p.pid, have).WithPID(p.pid).
		WithHint(`session "new" with backend %q begins one there, session "none" runs this by itself`, piece.Backend)
}
