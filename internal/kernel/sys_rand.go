package kernel

import (
	"encoding/base64"
	"encoding/json"
	"io"

	"agentkernel"
)

// randCalls is the family of randomness.
var randCalls = map[string]handler{"rand.bytes": {now: randBytes}}

const maxRandom = 64 << 10

func randBytes(k *Kernel, _ *process, f *inflight) (json.RawMessage, error) {
	var a struct {
		N int `json:"n"`
	}
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	if a.N < 0 || a.N > maxRandom {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "n is %d; it must be 0 to %d", a.N, maxRandom)
	}
	b := make([]byte, a.N)
	if _, err := io.ReadFull(k.cfg.Rand, b); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, f.op)
	}
	return json.Marshal(map[string]string{"$bytes": base64.StdEncoding.EncodeToString(b)})
}
