package agentkernel

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Library keeps what outlives processes and belongs to no one of them: skills and documents of a namespace.
type Library interface {
	// SaveSkill checks a skill's code and keeps it as a new version; Version, Functions and times of the
	// argument do not count. Errors: CodeInvalid (name, size, no function), CodeSyntax, CodeUnsupported,
	// CodeNotFound (it imports what is not there), CodeStorage.
	SaveSkill(ctx context.Context, s Skill) (Skill, error)
	// Skill is one skill with its code; version 0 is the newest. CodeNotFound with the nearest names.
	Skill(ctx context.Context, namespace, name string, version int) (Skill, error)
	// Skills lists skills without code: by name, or with q.Text the fitting ones, best first.
	Skills(ctx context.Context, q SkillQuery) ([]Skill, error)
	// DeleteSkill deletes all versions of a skill. Processes that imported it keep their copy. CodeNotFound.
	DeleteSkill(ctx context.Context, namespace, name string) error
	// Document is one document; CodeNotFound.
	Document(ctx context.Context, namespace, owner, name string) (Document, error)
	// PutDocument replaces a document in one step and gives its new version. With d.Version the document must
	// be at that version: CodeConflict. Errors: CodeInvalid (name, size, no JSON), CodeStorage.
	PutDocument(ctx context.Context, d Document) (Document, error)
}

// Skill is saved code: a module `skills.<name>` that programs of its namespace import. It may do what the
// process that imports it may do, and no more.
type Skill struct {
	Namespace   string    `json:"namespace,omitempty"` // "" is "default"
	Name        string    `json:"name"`                // a Python identifier
	Version     int       `json:"version"`             // 1, 2, ...
	Description string    `json:"description,omitempty"`
	Tags        []string  `json:"tags,omitempty"`
	Functions   []string  `json:"functions,omitempty"` // signatures, as they stand in the code
	Code        string    `json:"code,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}

// keywords of Python that look like names of modules, and aio, which a name of a module ends with.
const keywords = " and as assert async await break class continue def del elif else except finally for from global if import in is " +
	"lambda nonlocal not or pass raise return try while with yield aio "

// CheckSkillName refuses what no import statement can have as the name of a skill: CodeInvalid. Names are in lower case, so that two are never
// one file.
func CheckSkillName(name string) error {
	ok := len(name) > 0 && len(name) <= 64 && !strings.Contains(keywords, " "+name+" ")
	for i, r := range name {
		ok = ok && (r == '_' || r >= 'a' && r <= 'z' || i > 0 && r >= '0' && r <= '9')
	}
	if ok {
		return nil
	}
	return Errorf(CodeInvalid, "skill", "%.80q cannot be the name of a skill", name).
		WithHint("programs import it: write lower-case letters, digits and _, such as monthly_report")
}

// SkillQuery selects skills.
type SkillQuery struct {
	Namespace string `json:"namespace,omitempty"`
	Text      string `json:"text,omitempty"`  // words; "": all
	Limit     int    `json:"limit,omitempty"` // 0: all
}

// Document is a JSON document that a user keeps under a name, "state.json".
type Document struct {
	Namespace string          `json:"namespace,omitempty"`
	Owner     string          `json:"owner,omitempty"` // whose it is; "" is the namespace's
	Name      string          `json:"name"`
	Version   int64           `json:"version"` // counts writes
	Data      json.RawMessage `json:"data"`
	Updated   time.Time       `json:"updated,omitzero"`
}

// Bounds of what a library keeps.
const (
	MaxSkill    = 1 << 20  // bytes of code
	MaxDocument = 16 << 20 // bytes
)
