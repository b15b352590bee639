package why

import (
	"cmp"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

// limits: the name in the settings, and how the sentence goes.
var limits = map[string]string{
	"time":       "it ran for %s inside the sandbox",
	"wall":       "it has existed for %s",
	"memory":     "it needed more memory",
	"recursion":  "its calls were nested deeper",
	"output":     "it printed more",
	"calls":      "it made call %s",
	"cpu_time":   "its processes computed for longer together",
	"pids":       "it wanted more processes and threads at a time",
	"open_files": "one of its processes wanted more open files",
	"file_size":  "it wrote a larger file",
	"disk":       "it wrote more",
	"journal":    "the journals of its tree grew beyond what they may",
}

// Flag is the flag that raises the limit which an error is about; "": there is none.
func Flag(e *agentkernel.Error) string {
	if name, ok := strings.CutPrefix(e.Op, "limit."); ok {
		return agentkernel.LimitFlag(name)
	}
	return ""
}

func (c *inquiry) limitHit(e *agentkernel.Error) {
	name := strings.TrimPrefix(e.Op, "limit.")
	said, ok := limits[name]
	l := &Limit{Name: name, Flag: agentkernel.LimitFlag(name)}
	c.cause.Limit = l
	if !ok {
		c.say(LimitHit, "%s", oneLine(e.Message()))
		c.step(c.cmd("inspect %d"), "its limits")
		return
	}
	set := c.spec.Limits.WithDefaults(agentkernel.DefaultLimits())
	var raised string
	switch name {
	case "time":
		l.Limit, l.Used, raised = set.Time.String(), console.Span(c.p.Usage.Running), (set.Time * 4).String()
	case "wall":
		l.Limit, l.Used, raised = set.Wall.String(), console.Span(c.p.Ended.Sub(c.p.Created)), (set.Wall * 4).String()
	case "memory":
		l.Limit, raised = config.FormatSize(set.Memory), config.FormatSize(set.Memory*4)
	case "recursion":
		l.Limit, raised = fmt.Sprint(set.Recursion), fmt.Sprint(set.Recursion*4)
	case "output":
		l.Limit, l.Used, raised = config.FormatSize(set.Output), config.FormatSize(c.p.Usage.Output), config.FormatSize(set.Output*4)
	case "cpu_time":
		l.Limit, raised = set.CPUTime.String(), (set.CPUTime * 4).String()
	case "pids":
		l.Limit, raised = fmt.Sprint(set.Pids), fmt.Sprint(set.Pids*4)
	case "open_files":
		l.Limit, raised = fmt.Sprint(set.OpenFiles), fmt.Sprint(set.OpenFiles*4)
	case "file_size":
		size := cmp.Or(set.FileSize, set.Disk)
		l.Limit, raised = config.FormatSize(size), config.FormatSize(size*4)
	case "disk":
		l.Limit, raised = config.FormatSize(set.Disk), config.FormatSize(set.Disk*4)
	case "journal":
		l.Limit, raised = config.FormatSize(set.Journal), config.FormatSize(set.Journal*4)
	case "calls":
		l.Limit, l.Used, raised = fmt.Sprint(set.Calls), fmt.Sprint(c.cause.Calls), fmt.Sprint(set.Calls*4)
	}
	if strings.Contains(said, "%s") {
		said = fmt.Sprintf(said, l.Used)
	}
	c.say(LimitHit, "%s; limits.%s is %s%s%s", said, name, l.Limit, c.where(), c.under())
	again := fmt.Sprintf("agentkernel rerun %d %s %s", c.p.PID, l.Flag, raised)
	if l.Flag == "" {
		again = fmt.Sprintf("AGENTKERNEL_LIMITS_%s=%s agentkernel rerun %d", strings.ToUpper(name), raised, c.p.PID)
	}
	c.step(again, "with a greater limit: finished calls are not made again")
	c.step(c.cmd("trace %d"), "what it did")
}
