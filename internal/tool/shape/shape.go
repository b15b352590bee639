// Package shape learns what the results of a tool look like from results that were seen: the types of
// values and the names of members, so that a program can be written for a tool that declares no output
// schema. It must never keep a value: a key that is not a plain name makes its object a mapping, whose keys
// are not kept, and everything is bounded.
package shape

import (
	"slices"
	"strings"

	"agentkernel/internal/lazy"
)

// What is kept at most.
const (
	maxDepth = 6
	maxKeys  = 48  // of one object; one with more is a mapping
	maxNodes = 400 // of one shape
	maxItems = 32  // of one list that are looked at
	// MaxBytes is the size of a result beyond which nothing is learned from it.
	MaxBytes = 256 << 10
)

// plainName is what a key looks like that a program's author chose. Anything else may be data.
var plainName = lazy.Regexp(`^[A-Za-z_@$][A-Za-z0-9_.:-]{0,47}$`)

// Kind is a type of Python.
type Kind string

// The kinds.
const (
	None  Kind = "None"
	Bool  Kind = "bool"
	Int   Kind = "int"
	Float Kind = "float"
	Str   Kind = "str"
	Bytes Kind = "bytes"
	List  Kind = "list"
	Dict  Kind = "dict"
	Any   Kind = "Any"
)

// Shape is what was seen at one place. Its JSON is what is stored.
type Shape struct {
	Kinds   []Kind             `json:"kinds,omitempty"`   // sorted
	Objects int                `json:"objects,omitempty"` // how many objects were seen here
	Members map[string]*Member `json:"members,omitempty"` // of objects; nil with Mapping
	Mapping bool               `json:"mapping,omitempty"` // objects whose keys are data
	Values  *Shape             `json:"values,omitempty"`  // of a mapping
	Items   *Shape             `json:"items,omitempty"`   // of lists
}

// Member is one member of objects.
type Member struct {
	Shape
	Seen int `json:"seen"` // in how many of the objects
}

// nodes counts the shapes in a shape.
func (s *Shape) nodes() int {
	if s == nil {
		return 0
	}
	n := 1 + s.Values.nodes() + s.Items.nodes()
	for _, m := range s.Members {
		n += m.nodes()
	}
	return n
}

func (s *Shape) has(k Kind) { // notes a kind
	if at, found := slices.BinarySearch(s.Kinds, k); !found {
		s.Kinds = slices.Insert(s.Kinds, at, k)
	}
}

// toMapping gives up the keys of objects.
func (s *Shape) toMapping() {
	if s.Mapping {
		return
	}
	s.Mapping = true
	s.Values = &Shape{}
	for _, m := range s.Members {
		s.Values.merge(&m.Shape)
	}
	s.Members = nil
}

// merge adds what another shape says.
func (s *Shape) merge(o *Shape) {
	if o == nil {
		return
	}
	for _, k := range o.Kinds {
		s.has(k)
	}
	s.Objects += o.Objects
	if o.Items != nil {
		if s.Items == nil {
			s.Items = &Shape{}
		}
		s.Items.merge(o.Items)
	}
	if o.Mapping {
		s.toMapping()
	}
	if s.Mapping {
		s.Values.merge(o.Values)
		for _, m := range o.Members {
			s.Values.merge(&m.Shape)
		}
		return
	}
	for name, m := range o.Members {
		mine := s.member(name)
		mine.Seen += m.Seen
		mine.merge(&m.Shape)
	}
	if len(s.Members) > maxKeys {
		s.toMapping()
	}
}

func (s *Shape) member(name string) *Member {
	if s.Members == nil {
		s.Members = map[string]*Member{}
	}
	if s.Members[name] == nil {
		s.Members[name] = &Member{}
	}
	return s.Members[name]
}

// mapping says whether the keys of objects are data: declared so, or nearly every object has others.
func (s *Shape) mapping() bool {
	if s.Mapping {
		return true
	}
	const few = 8
	if s.Objects < 2 || len(s.Members) <= few {
		return false
	}
	seen := 0
	for _, m := range s.Members {
		seen += m.Seen
	}
	return seen*4 < s.Objects*len(s.Members) // a key stands in less than a quarter of them
}

// values is the shape of what a mapping maps to.
func (s *Shape) values() *Shape {
	if s.Mapping {
		return s.Values
	}
	all := &Shape{}
	for _, m := range s.Members {
		all.merge(&m.Shape)
	}
	return all
}

// Type is the Python annotation: "list[dict[str, Any]]", "str | None".
func (s *Shape) Type() string { return s.typeAt(0) }

func (s *Shape) typeAt(depth int) string {
	if s == nil || len(s.Kinds) == 0 || depth > maxDepth {
		return string(Any)
	}
	var out []string
	none := false
	for _, k := range s.Kinds {
		switch {
		case k == None:
			none = true
		case k == Any:
			return string(Any)
		case k == Int && slices.Contains(s.Kinds, Float): // 1 and 1.5
		case k == List && s.Items == nil: // only empty ones were seen
			out = append(out, "list")
		case k == List:
			out = append(out, "list["+s.Items.typeAt(depth+1)+"]")
		case k == Dict && s.mapping():
			out = append(out, "dict[str, "+s.values().typeAt(depth+1)+"]")
		default:
			out = append(out, string(k))
		}
	}
	if none {
		out = append(out, string(None))
	}
	return strings.Join(out, " | ")
}

// Describe lists the members of objects, one a line, indented by depth; "" if there are none.
func (s *Shape) Describe() string {
	var b strings.Builder
	s.describe(&b, "", 0)
	return strings.TrimSuffix(b.String(), "\n")
}

func (s *Shape) describe(b *strings.Builder, indent string, depth int) {
	if s == nil || depth > maxDepth {
		return
	}
	if s.mapping() {
		s.values().describe(b, indent, depth+1)
		return
	}
	names := make([]string, 0, len(s.Members))
	for name := range s.Members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m := s.Members[name]
		b.WriteString(indent + `"` + name + `": ` + m.Type())
		if m.Seen < s.Objects {
			b.WriteString(" (not always)")
		}
		b.WriteByte('\n')
		m.describe(b, indent+"    ", depth+1)
	}
	s.Items.describe(b, indent, depth+1)
}
