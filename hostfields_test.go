package agentkernel_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// specFields says of each field of a Spec whose business it is. A new field needs an entry here, and if it names
// something of the machine, a line in Spec.WithoutHost.
//
//	host     names something of the machine: WithoutHost clears it
//	store    names something of one store: a process, a tenant, a key
//	grant    what the process may do or use
//	program  what the program is, or how it wants to be run; the same anywhere
var specFields = map[string]string{
	"Program.Name":     "program",
	"Program.Language": "program",
	"Program.Source":   "program", // of a Command: a name on the PATH of the sandbox, which shows the system's folders alone
	"Program.Args":     "program",
	"Program.Modules":  "program", // paths below the program's own folder in the sandbox
	"Program.Host":     "host",
	"Program.Session":  "program",
	"Program.Earlier":  "store", // the kernel's own note of a session
	"Program.Cells":    "store",

	"Backend":   "program",
	"Isolation": "program", // a floor: it only asks for more
	"Namespace": "store",
	"Parent":    "store",
	"Ancestors": "store",
	"Detached":  "store", "DetachedFrom": "store",
	"Priority": "program",

	"Deadline": "grant",

	"Limits.Time": "grant", "Limits.Wall": "grant", "Limits.Memory": "grant", "Limits.Recursion": "grant", "Limits.Output": "grant",
	"Limits.Calls": "grant", "Limits.CallWait": "grant", "Limits.InFlight": "grant", "Limits.Repeats": "grant", "Limits.Processes": "grant", "Limits.Journal": "grant",
	"Limits.Disk": "grant", "Limits.CPUs": "grant", "Limits.CPUTime": "grant", "Limits.Pids": "grant", "Limits.OpenFiles": "grant",
	"Limits.FileSize": "grant",
	"Budget.Tokens":   "grant", "Budget.USD": "grant", "Budget.Calls": "grant", "OnBudget": "program", "Budgets": "store", "BudgetsUSD": "store",
	"Budget.Turns": "grant", "Budget.Time": "grant", "BudgetsTime": "store",

	"Tools":          "host",
	"ToolDigests":    "host",
	"Allow":          "grant",
	"AllowHosts":     "grant",
	"Deny":           "program", // it only takes away
	"OnUnknown":      "program",
	"Durability":     "program",
	"Restart":        "grant",
	"IdempotencyKey": "store",
	"Past.PID":       "store",
	"Past.From":      "store",
	"Past.Again":     "grant",

	"Workspace.Path": "host", "Workspace.Publish": "host", "Workspace.ReadOnly": "host", "Workspace.Optional": "host",
	"Volumes.Name": "host", "Volumes.Path": "host", "Volumes.ReadOnly": "host", "Volumes.Size": "host",
	"Stdin":       "host",
	"Interactive": "grant",
	"Models":      "host",
}

// leaves calls visit with each field below t that has no fields of its own.
func leaves(t reflect.Type, prefix string, visit func(string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		visit(strings.TrimSuffix(prefix, "."))
		return
	}
	for i := range t.NumField() {
		leaves(t.Field(i).Type, prefix+t.Field(i).Name+".", visit)
	}
}

func TestEachFieldOfASpecIsClassified(t *testing.T) {
	known := map[string]bool{}
	leaves(reflect.TypeFor[agentkernel.Spec](), "", func(name string) {
		known[name] = true
		switch specFields[name] {
		case "host", "store", "grant", "program":
		default:
			t.Errorf("Spec.%s is new: may it come from a stranger? Say so in specFields, and clear it in WithoutHost if it names the host", name)
		}
	})
	for name := range specFields {
		if !known[name] {
			t.Errorf("Spec has no field %s", name)
		}
	}
}

// TestWithoutHost fills each field and looks which are gone.
func TestWithoutHost(t *testing.T) {
	var s agentkernel.Spec
	fill(reflect.ValueOf(&s).Elem())
	bare := s.WithoutHost()
	full, left := map[string]bool{}, map[string]bool{}
	filled(reflect.ValueOf(s), "", full)
	filled(reflect.ValueOf(bare), "", left)
	for name, class := range specFields {
		if !full[name] {
			t.Errorf("the test left %s empty", name)
		}
		if left[name] == (class == "host") {
			t.Errorf("%s, which is %s: left %t", name, class, left[name])
		}
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("/x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), reflect.ValueOf("/x").Convert(v.Type().Elem()))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("a Spec with a field of the kind " + v.Kind().String())
	}
}

func filled(v reflect.Value, prefix string, into map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			filled(v.Elem(), prefix, into)
		}
	case reflect.Slice:
		for i := range v.Len() {
			filled(v.Index(i), prefix, into)
		}
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			into[strings.TrimSuffix(prefix, ".")] = !at.IsZero()
			return
		}
		for i := range v.NumField() {
			filled(v.Field(i), prefix+v.Type().Field(i).Name+".", into)
		}
	default:
		if !v.IsZero() {
			into[strings.TrimSuffix(prefix, ".")] = true
		}
	}
}
