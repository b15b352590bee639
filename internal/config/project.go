package config

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
)

// InProject says what a project file may do with a key. It comes with somebody's repository: a checkout must not be able
// to act as its user, nor to give programs more than the user does. A new key must choose; its zero value is a mistake.
type InProject int

const (
	Never    InProject = iota + 1 // it grants something, belongs to a kernel, or names what is another user's
	Lower                         // only to less than the user's own file, or the default, gives
	Harmless                      // it gives nothing
	Accepted                      // each file that it names counts once its content was accepted
)

// String is what docs/config.md says of the key.
func (p InProject) String() string {
	switch p {
	case Lower:
		return "only lower"
	case Harmless:
		return "yes"
	case Accepted:
		return "once trusted"
	}
	return "no"
}

// setByProject is set for a project file. What the file may not give does not count, and a note says so: else a
// checkout could keep every program in it from running.
func (c *Config) setByProject(k *key, o Origin, values []string) error {
	if k.project < Lower {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "config",
			"%s: a project file cannot set %q, because it comes with the project and not from you", o, k.name).
			WithHint("set it in your own file (%s), as %s, or with a flag", "~/.config/agentkernel/config.toml", k.variable())
	}
	before := c.Values
	if k.project == Lower && k.list {
		values = slices.Concat(k.value.get(c), values) // a list of what is taken away
	}
	if err := k.setValue(c, o, values); err != nil {
		return err
	}
	if k.project == Harmless && len(k.only) > 0 && !slices.Contains(k.only, values[0]) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %s = %s: a project file may choose %s", o, k.name, values[0], strings.Join(k.only, ", "))
	}
	if err := k.bearable(o, c); err != nil {
		return err
	}
	if instead, more := k.gives(&Config{Values: before}, c, values); more {
		c.Values = before
		c.notes = append(c.notes, uncounted{k.name, fmt.Sprintf("%s: %s = %s does not count: a project file may not set it to more than %s, which you have",
			o, k.name, strings.Join(values, ", "), instead)})
		return nil
	}
	c.origins[k.name] = o
	return nil
}

// gives says whether a project file would give more than there was, and what that was.
func (k *key) gives(before, after *Config, values []string) (was string, more bool) {
	if len(k.value.get(before)) == 0 {
		before = &Config{Values: defaults()}
	}
	was = strings.Join(k.value.get(before), ", ")
	switch {
	case len(k.only) > 0:
		return was, values[0] != was && !slices.Contains(k.only, values[0])
	case k.value.number == nil || was == "":
		return was, false // a list that is added to, or a limit where there was none
	case k.name == "priority": // a greater number is less urgent
		return was, k.value.number(after) < k.value.number(before)
	}
	return was, k.value.number(after) > k.value.number(before)
}

// bearable refuses a limit with which hardly a program would run.
func (k *key) bearable(o Origin, c *Config) error {
	if k.least == "" {
		return nil
	}
	floor := &Config{}
	if err := k.value.set(floor, Origin{}, []string{k.least}); err != nil {
		return err
	}
	if k.value.number(c) >= k.value.number(floor) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %s is %s: hardly a program would run, and a project file cannot set less than %s",
		o, k.name, strings.Join(k.value.get(c), ", "), k.least).WithHint("take it out of %s; your own file or a flag may go lower", o.Name)
}

// uncounted says why a setting of a project file does not count.
type uncounted struct{ key, text string }

// Notes says which settings of the project file do not count, and why: those for which no variable or flag says
// something else anyway.
func (c *Config) Notes() []string {
	var out []string
	for _, n := range c.notes {
		if kind := c.origins[n.key].Kind; kind != Env && kind != Flag {
			out = append(out, n.text)
		}
	}
	return out
}
