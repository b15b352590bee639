package agentkernel_test

import (
	"reflect"
	"strings"
	"testing"

	"agentkernel"
)

// The table of limits has a row for each field of Limits, and each row holds its own field.
func TestEachLimitIsInTheTable(t *testing.T) {
	fields := reflect.TypeFor[agentkernel.Limits]()
	if n := len(agentkernel.AllLimits()); n != fields.NumField() {
		t.Errorf("%d rows for %d fields", n, fields.NumField())
	}
	units := map[agentkernel.LimitUnit]string{agentkernel.LimitSpan: "Duration", agentkernel.LimitSize: "int64", agentkernel.LimitShare: "float64", agentkernel.LimitNumber: "int64 int Repeats"}
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		d, ok := agentkernel.FindLimit(name)
		var l agentkernel.Limits
		if !ok || reflect.ValueOf(d.Of(&l)).Pointer() != reflect.ValueOf(&l).Elem().Field(i).Addr().Pointer() {
			t.Errorf("the row of %s holds another field", name)
			continue
		}
		if kind := fields.Field(i).Type.Name(); !strings.Contains(units[d.Unit], kind) {
			t.Errorf("%s is a %s, and counts %s", name, kind, d.Unit)
		}
		if d.Doc == "" || d.Hit == "" || d.Least == "" || d.Flag == "" || d.Help == "" {
			t.Errorf("the row of %s lacks something: %+v", name, d)
		}
	}
}

// A limit that is not set is filled in, one that is set stays; and a child has what is less.
func TestLimitsAreFilledAndLowered(t *testing.T) {
	one := func(d agentkernel.Limit, n int64) (l agentkernel.Limits) {
		switch field := d.Of(&l).(type) {
		case *agentkernel.Duration:
			*field = agentkernel.Duration(n)
		case *int64:
			*field = n
		case *int:
			*field = int(n)
		case *float64:
			*field = float64(n)
		}
		return l
	}
	for _, d := range agentkernel.AllLimits() {
		for _, c := range []struct{ mine, others, filled, lowered int64 }{{0, 0, 0, 0}, {0, 5, 5, 5}, {5, 0, 5, 5}, {3, 5, 3, 3}, {5, 3, 5, 3}, {4, 4, 4, 4}} {
			mine, others := one(d, c.mine), one(d, c.others)
			if got := mine.WithDefaults(others); got != one(d, c.filled) {
				t.Errorf("%s: %d with the default %d: %+v", d.Name, c.mine, c.others, got)
			}
			if got := mine.Within(others); got != one(d, c.lowered) {
				t.Errorf("%s: %d within %d: %+v", d.Name, c.mine, c.others, got)
			}
		}
	}
}

func TestTheLimitOfAnError(t *testing.T) {
	e := agentkernel.LimitErrorf("memory", "too much: %d", 7)
	if name, ok := e.Limit(); !ok || name != "memory" || e.Op != "limit.memory" || e.Message() != "too much: 7" || e.Hint != agentkernel.RaiseLimit("memory") {
		t.Errorf("%q %v: %+v", name, ok, e)
	}
	for _, e := range []*agentkernel.Error{nil, {Code: agentkernel.CodeLimit, Op: "tool.call"}, {Code: agentkernel.CodeTool, Op: "limit.memory"}} {
		if name, ok := e.Limit(); ok || name != "" {
			t.Errorf("%+v is about the limit %q", e, name)
		}
	}
}
