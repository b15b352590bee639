package process

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"agentkernel"
)

// message is one JSON object of the guest.
type message struct {
	Type string `json:"type"`

	Wire int `json:"wire"` // hello

	ID    int64           `json:"id"` // call, next
	Op    string          `json:"op"`
	Args  json.RawMessage `json:"args"`
	Async bool            `json:"async"`

	Code   int             `json:"code"` // exit
	Result json.RawMessage `json:"result"`

	Exception string `json:"exception"` // fail
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Limit     string `json:"limit"`
	Syntax    bool   `json:"syntax"`

	Failure *message `json:"failure"` // next: a fail, if the cell raised; else Result

	List  string `json:"list"` // refused
	Step  int    `json:"step"`
	Errno int    `json:"errno"`
}

// verdict is what the guest found in a program, in a message of the type checked. Of a program that runs nobody reads one: it may send what
// it likes, and lists take many times their length.
type verdict struct {
	Tools    []agentkernel.ToolRef `json:"tools"`
	Skills   []string              `json:"skills"`
	Imports  []string              `json:"imports"`  // roots of what it imports
	Compiled string                `json:"compiled"` // the program compiled, for children of the same interpreter; "": it is not kept
	Missing  []missingModule       `json:"missing"`
	Error    *checkError           `json:"error"`
}

type missingModule struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Module string `json:"module"`
}

type checkError struct {
	Exception string `json:"exception"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

// wireVersion is what hello must say.
const wireVersion = 1

// maxOp bounds the name of an operation.
const maxOp = 128

// decodeMessage reads one object of a guest that may be hostile.
func decodeMessage(payload []byte) (m message, err error) {
	if !utf8.Valid(payload) {
		return m, broke("a message is not UTF-8")
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return m, broke("a message is no JSON object that has a meaning: %v", err)
	}
	switch m.Type {
	case "call":
		m.Args = bytes.TrimSpace(m.Args)
		switch {
		case len(m.Args) == 0 || m.Args[0] != '{':
			return m, broke("the arguments of a call are no object")
		case m.Op == "" || len(m.Op) > maxOp || strings.ContainsFunc(m.Op, notInOp):
			return m, broke("a call of %.40q", m.Op)
		}
	case "exit":
		if m.Code < 0 || m.Code > 255 {
			return m, broke("an exit code of %d", m.Code)
		}
	case "hello", "wait", "fail", "next", "refused", "checked":
	default:
		return m, broke("a message of unknown type %.40q", m.Type)
	}
	return m, nil
}

// maxCompiled is the longest code that is kept with a verdict; the guest sends none that is longer.
const maxCompiled = 512 << 10

// decodeVerdict reads the rest of a message of the type checked.
func decodeVerdict(payload []byte) (*verdict, error) {
	v := new(verdict)
	if err := json.Unmarshal(payload, v); err != nil {
		return nil, broke("what was found in the program has no meaning: %v", err)
	}
	if len(v.Compiled) > maxCompiled {
		v.Compiled = ""
	}
	return v, nil
}

func notInOp(r rune) bool { return r <= ' ' || r > '~' }

// startMessage hands a program to its child.
type startMessage struct {
	Type      string             `json:"type"`
	Name      string             `json:"name"`
	Source    string             `json:"source"`
	Session   bool               `json:"session,omitempty"` // it waits for cells when it has run
	Args      []string           `json:"args,omitempty"`
	Modules   map[string]string  `json:"modules,omitempty"`
	Tools     []agentkernel.Tool `json:"tools,omitempty"`
	Imports   []string           `json:"imports,omitempty"`
	Compiled  string             `json:"compiled,omitempty"` // verdict.Compiled
	Recursion int                `json:"recursion,omitempty"`
	Memory    int64              `json:"memory,omitempty"` // bytes beyond what the zygote has, for a child without walls
	Files     bool               `json:"files,omitempty"`  // what it writes outlasts it
}

// replyMessage answers a call.
type replyMessage struct {
	Type   string          `json:"type"`
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Exception string           `json:"exception"`
	Code      agentkernel.Code `json:"code"`
	Text      string           `json:"text"`
}

// replyFrame encodes the answer to the guest's call number id.
func replyFrame(id int64, r *agentkernel.Reply) ([]byte, error) {
	m := replyMessage{Type: "reply", ID: id}
	if r.Err != nil {
		m.Error = &replyError{r.Err.Code.GuestException(), r.Err.Code, strings.ToValidUTF8(r.Err.GuestText(), "�")}
	} else {
		m.Result = r.Result
	}
	return encode(m)
}

// encode makes a frame of an object.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, frameHead))
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return sealed(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
