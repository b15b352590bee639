// Package intrinsic answers the calls that shims of the standard library hand to the host because the
// engine would be slow or unable: hashing, CSV, the Mersenne Twister, exact sums. Every intrinsic is a pure
// function of its arguments, linear in their size in time and memory, and is never journalled.
//
// It must never read a clock, a file, the environment or the network: replay calls it again and must get
// the same answer. Its callers are hostile: every argument is checked.
package intrinsic

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"agentkernel"
)

// Call runs the intrinsic of that name (without the "intrinsic." prefix). args is a JSON array and the
// result JSON, both in the form of docs/values.md. Errors are *agentkernel.Error of CodeProgram with
// Exception set to the Python exception that the call raises.
func Call(name string, args json.RawMessage) (json.RawMessage, error) {
	run := find(name)
	if run == nil {
		return nil, raise(name, &pyError{"NotImplementedError", fmt.Sprintf("there is no intrinsic %q", name)})
	}
	if len(args) > maxInput {
		return nil, raise(name, valueError("the argument of %s is larger than %d bytes", name, maxInput))
	}
	if len(args) > largeInput {
		large.Lock()
		defer large.Unlock()
	}
	list, ok := split(args)
	if !ok {
		return nil, raise(name, typeError("the arguments of %s are not a list", name))
	}
	out, err := run(arguments{name, list})
	if err != nil {
		return nil, raise(name, err)
	}
	return out, nil
}

// maxInput bounds what one call may be given; results are at most a small multiple of it.
const maxInput = 64 << 20

// largeInput is from which size on one call is worked out after the other: all copies of it together may take 20 times as much.
const largeInput = 1 << 20

var large sync.Mutex

// find is the table of intrinsics; nil for an unknown name.
func find(name string) func(arguments) (json.RawMessage, error) {
	switch name {
	case "digest":
		return digest
	case "hmac":
		return hmacDigest
	case "pbkdf2":
		return pbkdf2Key
	case "csv_rows":
		return csvRows
	case "csv_dicts":
		return csvDicts
	case "csv_text":
		return csvText
	case "mt_seed":
		return mtSeed
	case "mt_block":
		return mtBlock
	case "fsum":
		return fsum
	case "mean":
		return mean
	case "over_sum":
		return overSum
	case "variance":
		return variance
	case "url_quote":
		return urlQuote
	case "url_unquote":
		return urlUnquote
	case "html_unescape":
		return htmlUnescape
	case "bytes_of":
		return bytesOf
	case "struct_pack":
		return structPack
	case "struct_unpack":
		return structUnpack
	}
	return nil
}

// Names lists the intrinsics that exist, for the test that holds the shims against them.
func Names() []string {
	return []string{"digest", "hmac", "pbkdf2", "csv_rows", "csv_dicts", "csv_text", "mt_seed", "mt_block", "fsum", "mean", "over_sum", "variance",
		"url_quote", "url_unquote", "html_unescape", "bytes_of", "struct_pack", "struct_unpack"}
}

// pyError is an error as the program sees it.
type pyError struct{ exception, text string }

func (e *pyError) Error() string { return e.text }

func valueError(format string, args ...any) error {
	return &pyError{"ValueError", fmt.Sprintf(format, args...)}
}

func typeError(format string, args ...any) error {
	return &pyError{"TypeError", fmt.Sprintf(format, args...)}
}

func raise(name string, err error) error {
	e := agentkernel.Errorf(agentkernel.CodeProgram, "intrinsic."+name, "%w", err)
	e.Exception = "RuntimeError"
	if p, ok := errors.AsType[*pyError](err); ok {
		e.Exception = p.exception
	}
	return e
}
