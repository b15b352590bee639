package specs

import (
	"cmp"
	"encoding/json"

	"agentkernel/internal/sys"
)

// SpawnArgs are the arguments of the call with which a program starts a child.
type SpawnArgs struct {
	Source   string          `json:"source"`
	Args     []string        `json:"args"`
	Name     string          `json:"name"`
	Priority int             `json:"priority"`
	Limits   json.RawMessage `json:"limits"`
	Detached bool            `json:"detached"`
	Budget   json.RawMessage `json:"budget"`
	Deadline *float64        `json:"deadline"`
	Folder   bool            `json:"folder"`
}

// Asked is what they ask for. op is the call.
func (a *SpawnArgs) Asked(op string) (Asked, error) {
	asked := Asked{Name: a.Name, Source: a.Source, Args: a.Args, Priority: a.Priority, Detached: a.Detached, Deadline: a.Deadline, Folder: a.Folder}
	return asked, cmp.Or(sys.DecodePart(op, "limits", a.Limits, &asked.Limits), sys.DecodePart(op, "budget", a.Budget, &asked.Budget))
}
