package confine

import "agentkernel"

// Report is what Probe found, for `doctor`.
type Report struct {
	// Problem is why no sandbox can be made here, with what mends it; nil if one was made.
	Problem *agentkernel.Error
	// Walls are those of a sandbox as it is made here. One that is not On says why, and what would mend it.
	Walls []Wall
}
