// Package random is the family of randomness: rand.bytes.
package random

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"

	"agentkernel"
	"agentkernel/internal/sys"
)

const maxBytes = 64 << 10

// Family is the family of randomness, which is drawn from source; nil: from the operating system.
func Family(source io.Reader) sys.Family {
	if source == nil {
		source = rand.Reader
	}
	return sys.Family{Name: "rand", Ops: []sys.Op{
		{Rerun: sys.Free, Now: func(c *sys.Call) (sys.Outcome, error) { return draw(c, source) }, Syscall: agentkernel.Syscall{
			Name: "rand.bytes", Guest: "random_bytes", Effect: agentkernel.EffectPure, Capability: "rand", Advances: true,
			Doc:    "Random bytes from the operating system. random, uuid4 and secrets draw from it.",
			Args:   []agentkernel.Param{{Name: "n", Type: "integer", Doc: "how many, 0 to 65536"}},
			Result: "bytes"}},
	}}
}

func draw(c *sys.Call, source io.Reader) (sys.Outcome, error) {
	var a struct {
		N int `json:"n"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Outcome{}, err
	}
	if a.N < 0 || a.N > maxBytes {
		return sys.Outcome{}, c.Invalid("n is %d; it must be 0 to %d", a.N, maxBytes)
	}
	b := make([]byte, a.N)
	if _, err := io.ReadFull(source, b); err != nil {
		return sys.Outcome{}, agentkernel.AsError(err, agentkernel.CodeUnavailable, c.Op.Name)
	}
	result, err := json.Marshal(map[string]string{"$bytes": base64.StdEncoding.EncodeToString(b)})
	return sys.Outcome{Result: result}, err
}
