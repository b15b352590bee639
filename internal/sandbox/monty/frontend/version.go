package frontend

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"sync"

	"agentkernel/guest"
)

// generation counts changes of this package that make old images unusable with new code.
const generation = "1"

// version is a hash over the guest sources and the generation, made once.
var version = sync.OnceValue(func() string {
	h := sha256.New()
	h.Write([]byte(generation))
	entries, err := fs.ReadDir(guest.Monty, "monty")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	for _, e := range entries {
		text, err := fs.ReadFile(guest.Monty, "monty/"+e.Name())
		if err != nil {
			panic(err)
		}
		h.Write([]byte(e.Name() + "\x00"))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})
