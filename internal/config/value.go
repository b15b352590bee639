package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/nearest"
	"agentkernel/internal/sched"
)

// A value is what a key holds: how its text is read, how it is written again, and what it may be.
type value struct {
	set  func(c *Config, o Origin, values []string) error
	get  func(c *Config) []string // as set takes it; nothing if it was set nowhere
	form Form
	// number is the value of a number, a size or a duration, to be compared; 0: it was set nowhere.
	number func(c *Config) float64
}

// Kinds of values.
const (
	KindText     = "text"
	KindPath     = "path"
	KindChoice   = "choice"
	KindInteger  = "integer"
	KindNumber   = "number"
	KindDuration = "duration"
	KindSize     = "size"
)

// Form says what a value may be, for the JSON Schema of the files.
type Form struct {
	Kind    string
	Min     int64 // integers and numbers
	Max     int64
	Choices []string
	None    bool // it can be none
}

// none is how people write that there is no such limit.
const none = "none"

// get writes a value that is not zero.
func get[T comparable](field func(*Config) *T, text func(T) string) func(*Config) []string {
	return func(c *Config) []string {
		var zero T
		if v := *field(c); v != zero {
			return []string{text(v)}
		}
		return nil
	}
}

func getList(field func(*Config) *[]string) func(*Config) []string {
	return func(c *Config) []string { return slices.Clone(*field(c)) }
}

func same(s string) string { return s }

func pathInto(field func(*Config) *string) value {
	return value{form: Form{Kind: KindPath}, get: get(field, same),
		set: func(c *Config, o Origin, v []string) error {
			p, err := c.path(o, v[0])
			if err == nil {
				*field(c) = p
			}
			return err
		}}
}

// engineInto takes a path, or a bare name that is sought in PATH later.
func engineInto(field func(*Config) *string) value {
	v := pathInto(field)
	path := v.set
	v.set = func(c *Config, o Origin, values []string) error {
		if name := values[0]; name != "" && !strings.ContainsAny(name, `/\`) {
			*field(c) = name
			return nil
		}
		return path(c, o, values)
	}
	return v
}

func pathsInto(field func(*Config) *[]string) value {
	return value{form: Form{Kind: KindPath}, get: getList(field),
		set: func(c *Config, o Origin, v []string) error {
			paths := make([]string, len(v))
			for i, p := range v {
				abs, err := c.path(o, p)
				if err != nil {
					return err
				}
				paths[i] = abs
			}
			*field(c) = paths
			return nil
		}}
}

func textInto(field func(*Config) *string) value {
	return value{form: Form{Kind: KindText}, get: get(field, same),
		set: func(c *Config, _ Origin, v []string) error {
			if strings.TrimSpace(v[0]) == "" {
				return fmt.Errorf("the value is empty")
			}
			*field(c) = v[0]
			return nil
		}}
}

func listInto(field func(*Config) *[]string) value {
	return value{form: Form{Kind: KindText}, get: getList(field),
		set: func(c *Config, _ Origin, v []string) error {
			if slices.ContainsFunc(v, func(s string) bool { return strings.TrimSpace(s) == "" }) {
				return fmt.Errorf("a value of the list is empty")
			}
			*field(c) = slices.Clone(v)
			return nil
		}}
}

func intInto[T int | int64](field func(*Config) *T, lo, hi int64) value {
	return value{form: Form{Kind: KindInteger, Min: lo, Max: hi}, get: get(field, func(n T) string { return strconv.FormatInt(int64(n), 10) }),
		number: func(c *Config) float64 { return float64(*field(c)) },
		set: func(c *Config, _ Origin, v []string) error {
			n, err := strconv.ParseInt(v[0], 10, 64)
			switch {
			case (err != nil || n < lo) && hi == math.MaxInt64:
				return fmt.Errorf("%q is not a whole number from %d", v[0], lo)
			case err != nil || n < lo || n > hi || int64(T(n)) != n:
				return fmt.Errorf("%q is not a whole number from %d to %d", v[0], lo, hi)
			}
			*field(c) = T(n)
			return nil
		}}
}

func floatInto(field func(*Config) *float64, lo, hi float64) value {
	return value{form: Form{Kind: KindNumber, Min: 0, Max: int64(hi)}, get: get(field, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }),
		number: func(c *Config) float64 { return float64(*field(c)) },
		set: func(c *Config, _ Origin, v []string) error {
			n, err := strconv.ParseFloat(v[0], 64)
			if err != nil || !(n >= lo && n <= hi) {
				return fmt.Errorf("%q is not a number from %v to %v", v[0], lo, hi)
			}
			*field(c) = n
			return nil
		}}
}

// limitInto reads a limit as its unit says.
func limitInto(l agentkernel.Limit) value {
	least, most := l.Range()
	switch l.Unit {
	case agentkernel.LimitSpan:
		return durationInto(limitField[agentkernel.Duration](l))
	case agentkernel.LimitSize:
		return sizeInto(limitField[int64](l))
	case agentkernel.LimitShare:
		return floatInto(limitField[float64](l), least, most)
	}
	hi := int64(math.MaxInt64)
	if !math.IsInf(most, 1) {
		hi = int64(most)
	}
	if _, wide := l.Of(new(agentkernel.Limits)).(*int64); wide {
		return orNone(intInto(limitField[int64](l), int64(least), hi), l.None)
	}
	return intInto(limitField[int](l), int64(least), hi)
}

// orNone also reads and writes none, and reads 0, for a number; 0: there is no such.
func orNone(v value, number int64) value {
	if number == 0 {
		return v
	}
	set, get, text := v.set, v.get, strconv.FormatInt(number, 10)
	v.form.Min, v.form.None = 0, true
	v.set = func(c *Config, o Origin, values []string) error {
		if values[0] == none || values[0] == "0" {
			values = []string{text}
		}
		err := set(c, o, values)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, none)
		}
		return err
	}
	v.get = func(c *Config) []string {
		if values := get(c); !slices.Equal(values, []string{text}) {
			return values
		}
		return []string{none}
	}
	return v
}

func limitField[T any](l agentkernel.Limit) func(*Config) *T {
	return func(c *Config) *T { return l.Of(&c.Limits).(*T) }
}

func choiceInto[T ~string](field func(*Config) *T, choices ...T) value {
	var names []string
	for _, c := range choices {
		names = append(names, string(c))
	}
	return value{form: Form{Kind: KindChoice, Choices: names}, get: get(field, func(v T) string { return string(v) }),
		set: func(c *Config, _ Origin, v []string) error {
			if !slices.Contains(names, v[0]) {
				return fmt.Errorf("%q is not one of %s", v[0], strings.Join(names, ", "))
			}
			*field(c) = T(v[0])
			return nil
		}}
}

// checked is a value of which a function looks at each text, too.
func checked(v value, check func(string) error) value {
	known := v.set
	v.set = func(c *Config, o Origin, values []string) error {
		for _, text := range values {
			if err := check(text); err != nil {
				return err
			}
		}
		return known(c, o, values)
	}
	return v
}

// together is a list of which a function looks at all texts, too: each may be right, and they contradict one another.
func together(v value, check func([]string) error) value {
	known := v.set
	v.set = func(c *Config, o Origin, values []string) error {
		if err := check(values); err != nil {
			return err
		}
		return known(c, o, values)
	}
	return v
}

func checkAllowances(texts []string) error {
	_, err := agentkernel.ParseAllowances(texts)
	return err
}

func checkReservedShares(texts []string) error {
	_, err := sched.Reserved(texts)
	return err
}

func checkShare(text string) error {
	name, _, err := sched.ParseShare(text)
	return cmp.Or(err, agentkernel.ValidateNamespace(name))
}

func checkReserved(text string) error {
	name, _, err := sched.ParseReserved(text)
	return cmp.Or(err, agentkernel.ValidateNamespace(name))
}

func checkModel(text string) error {
	_, err := models.Parse(text)
	return err
}

// knownBackend refuses a name that no backend has. The one without walls is asked for by the isolation, and not offered.
func knownBackend(name string) error {
	names := []string{"auto", "monty", "process"}
	if name == "unconfined" || slices.Contains(names, name) {
		return nil
	}
	return unknown(fmt.Sprintf("there is no backend %q; there are: %s", name, strings.Join(names, ", ")), name, names)
}

// deniable refuses a word that takes nothing away.
func deniable(word string) error {
	var words []string
	for _, call := range agentkernel.Syscalls() {
		if call.Capability != "" {
			words = append(words, call.Capability, call.Family(), call.Name)
		}
	}
	if slices.Contains(words, word) {
		return nil
	}
	return unknown(fmt.Sprintf("%q takes nothing away: there is no capability of that name", word), word, words)
}

// unknown is an error about a word, with the known one that is nearest.
func unknown(what, word string, known []string) error {
	if q := nearest.Question(word, known); q != "" {
		what += "; " + q
	}
	return errors.New(what)
}

// floorInto takes a boundary. None is a flag's to say: it is asked for each time, and never found in a file.
func floorInto(field func(*Config) *agentkernel.Isolation) value {
	v := choiceInto(field, agentkernel.Isolations()[1:]...)
	known := v.set
	v.set = func(c *Config, o Origin, values []string) error {
		if values[0] != string(agentkernel.IsolationNone) {
			err := known(c, o, values)
			if err != nil && o.Kind == Flag {
				err = fmt.Errorf("%w, none", err)
			}
			return err
		}
		if o.Kind != Flag {
			return fmt.Errorf("none is not set, but asked for with --isolation none, each time")
		}
		*field(c) = agentkernel.IsolationNone
		return nil
	}
	return v
}

func durationInto[T ~int64](field func(*Config) *T) value {
	return value{form: Form{Kind: KindDuration}, get: get(field, func(d T) string { return time.Duration(d).String() }),
		number: func(c *Config) float64 { return float64(*field(c)) },
		set: func(c *Config, _ Origin, v []string) error {
			d, err := parseDuration(v[0])
			if err == nil {
				*field(c) = T(d)
			}
			return err
		}}
}

func sizeInto(field func(*Config) *int64) value {
	return value{form: Form{Kind: KindSize}, get: get(field, FormatSize),
		number: func(c *Config) float64 { return float64(*field(c)) },
		set: func(c *Config, _ Origin, v []string) error {
			n, err := ParseSize(v[0])
			if err == nil {
				*field(c) = n
			}
			return err
		}}
}

func parseDuration(s string) (time.Duration, error) {
	d, err := ParseSpan(s)
	if err == nil && d <= 0 {
		return 0, fmt.Errorf("%q is not a duration above zero; leave it out for the default", s)
	}
	return d, err
}

// spans is how a duration is written, however long it is.
var spans = lazy.Regexp(`^([0-9]+(ns|us|µs|ms|[smhdw]))+$`)

// ParseSpan reads a duration as people write it: 500ms, 30s, 1h30m, and in whole days and weeks 30d, 2w.
func ParseSpan(s string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		digits, ok := strings.CutSuffix(s, unit)
		if n, err := strconv.ParseUint(digits, 10, 63); ok && err == nil && n <= uint64(math.MaxInt64/length) {
			return time.Duration(n) * length, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil && spans().MatchString(s) {
		return 0, fmt.Errorf("%q is too long: the longest duration is 292 years", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write 500ms, 30s, 5m, 1h30m, 30d or 2w", s)
	}
	return d, nil
}
