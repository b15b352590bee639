package agentkernel

import (
	"fmt"
	"slices"
)

// MaxMany is how many processes one call of SpawnMany creates at most.
const MaxMany = 1000

// Instance is what one of many processes of a program has of its own.
type Instance struct {
	Args           []string `json:"args,omitempty"`            // behind those of the Spec
	IdempotencyKey string   `json:"idempotency_key,omitempty"` // as in Spec
}

// Instance is the Spec of one of many processes.
func (s *Spec) Instance(i *Instance) Spec {
	one := *s
	one.Program.Args = slices.Concat(s.Program.Args, i.Args)
	one.IdempotencyKey = i.IdempotencyKey
	return one
}

// ValidateMany says what is wrong with what SpawnMany is given, before anything is created.
func (s *Spec) ValidateMany(each []Instance) error {
	switch {
	case len(each) > MaxMany:
		return Errorf(CodeLimit, "spawn", "%d processes in one call; the limit is %d", len(each), MaxMany).WithHint("make several calls")
	case s.IdempotencyKey != "":
		return Errorf(CodeInvalid, "spec", "one idempotency key for many processes").WithHint("give each its own")
	case s.Interactive:
		return Errorf(CodeInvalid, "spec", "many processes that ask at one terminal")
	}
	keys := map[string]int{}
	for i := range each {
		for j, arg := range each[i].Args {
			if err := validText(fmt.Sprintf("each[%d]: argument %d", i, j+1), arg); err != nil {
				return err
			}
		}
		key := each[i].IdempotencyKey
		if other, twice := keys[key]; twice && key != "" {
			return Errorf(CodeInvalid, "spec", "each[%d] has the idempotency key %.100q of each[%d]", i, key, other)
		}
		keys[key] = i
	}
	return s.Validate()
}
