// Package families lists the families of system calls.
package families

import (
	"io"

	"agentkernel"
	models "agentkernel/internal/llm"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/clock"
	"agentkernel/internal/sys/http"
	"agentkernel/internal/sys/llm"
	"agentkernel/internal/sys/logs"
	"agentkernel/internal/sys/random"
	"agentkernel/internal/sys/signals"
	"agentkernel/internal/sys/state"
	"agentkernel/internal/sys/stream"
	"agentkernel/internal/sys/tool"
)

// Parts are what families work with.
type Parts struct {
	Tools   *tool.Box           // nil: there are none
	Fetcher agentkernel.Fetcher // nil: programs make no HTTP requests
	Models  models.Engine       // nil: programs ask no models
	Random  io.Reader           // nil: that of the operating system
}

// All are the families, in the order of the reference page.
func All(p Parts) []sys.Family {
	if p.Tools == nil {
		p.Tools = tool.New(nil, nil)
	}
	return []sys.Family{
		p.Tools.Family(),
		state.Family(),
		clock.Family(),
		random.Family(p.Random),
		http.Family(p.Fetcher),
		llm.Family(p.Models, p.Fetcher),
		logs.Family(),
		signals.Family(),
		stream.Family(),
	}
}
