package mcpserver

import (
	"testing"
	"time"

	"agentkernel"
)

// A session may use ten times what one program may, or what its server was told; time that passes ends no session.
func TestSessionLimits(t *testing.T) {
	d := agentkernel.DefaultLimits()
	l := sessionLimits(agentkernel.Limits{Wall: agentkernel.Duration(time.Second), Memory: 7 << 20})
	if l.Time != 10*d.Time || l.Output != 10*d.Output || l.Calls != 10*d.Calls || l.Memory != 7<<20 || l.Pids != d.Pids || l.Wall != 0 {
		t.Errorf("%+v", l)
	}
	if l := sessionLimits(agentkernel.Limits{Time: 5, Output: 6, Calls: 7}); l.Time != 5 || l.Output != 6 || l.Calls != 7 {
		t.Errorf("what was said: %+v", l)
	}
}
