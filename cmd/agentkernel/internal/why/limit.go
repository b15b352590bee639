package why

import (
	"cmp"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

// Flag is the flag that raises the limit which an error is about; "": it is about something else.
func Flag(e *agentkernel.Error) string {
	if name, ok := e.Limit(); ok {
		return agentkernel.LimitFlag(name)
	}
	return ""
}

func (c *inquiry) limitHit(e *agentkernel.Error) {
	name, _ := e.Limit()
	name = cmp.Or(name, e.Op)
	d, ok := agentkernel.FindLimit(name)
	l := &Limit{Name: name, Flag: d.Flag}
	c.cause.Limit = l
	if !ok {
		c.say(LimitHit, "%s", oneLine(e.Message()))
		c.step(c.cmd("inspect %d"), "its limits")
		return
	}
	set := c.spec.Limits.WithDefaults(agentkernel.DefaultLimits())
	set.FileSize = cmp.Or(set.FileSize, set.Disk)
	var raised string
	l.Limit, raised = inForce(&d, &set)
	switch name {
	case "time":
		l.Used = console.Span(c.p.Usage.Running)
	case "wall":
		l.Used = console.Span(c.p.Ended.Sub(c.p.Created))
	case "output":
		l.Used = config.FormatSize(c.p.Usage.Output)
	case "calls":
		l.Used = fmt.Sprint(c.cause.Calls)
	}
	said := d.Hit
	if strings.Contains(said, "%s") {
		said = fmt.Sprintf(said, l.Used)
	}
	c.say(LimitHit, "%s; limits.%s is %s%s%s", said, name, l.Limit, c.where(), c.under())
	c.step(fmt.Sprintf("agentkernel rerun %d %s %s", c.p.PID, l.Flag, raised), "with a greater limit: finished calls are not made again")
	c.step(c.cmd("trace %d"), "what it did")
}

// inForce is a limit as people write it, and four times as much.
func inForce(d *agentkernel.Limit, l *agentkernel.Limits) (is, raised string) {
	switch v := d.Of(l).(type) {
	case *agentkernel.Duration:
		return v.String(), (*v * 4).String()
	case *int64:
		if d.Unit == agentkernel.LimitSize {
			return config.FormatSize(*v), config.FormatSize(*v * 4)
		}
		return fmt.Sprint(*v), fmt.Sprint(*v * 4)
	case *int:
		return fmt.Sprint(*v), fmt.Sprint(*v * 4)
	case *float64:
		return fmt.Sprint(*v), fmt.Sprint(*v * 4)
	}
	return "", ""
}
