package replay

import (
	"encoding/json"
	"strings"

	"agentkernel"
)

// leastAddress is how many digits an address has at least.
const leastAddress = 6

// sameButAddresses says whether two texts of a session are the same but for addresses, which CPython shows where a value
// has no better name (<function f at 0x7f1a...>) and which are others, and longer or shorter, in each process. People look
// at such values all the time, and a session has to run again far more often than a program: for a cell that was stopped,
// or after it was idle. What a session hands to calls is compared as it is.
func sameButAddresses(a, b string) bool {
	na, nb := commonButAddresses(a, b)
	return na == len(a) && nb == len(b)
}

// commonButAddresses says how much of two texts is the same but for addresses, from their beginnings on.
func commonButAddresses(a, b string) (na, nb int) {
	for na < len(a) && nb < len(b) {
		if n, m := addressAt(a, na), addressAt(b, nb); n > 0 && m > 0 {
			na, nb = na+n, nb+m
			continue
		}
		if a[na] != b[nb] {
			break
		}
		na, nb = na+1, nb+1
	}
	return na, nb
}

// addressAt is the length of the address that begins in a text; 0: none does.
func addressAt(s string, at int) int {
	if !strings.HasPrefix(s[at:], "0x") {
		return 0
	}
	n := len("0x")
	for at+n < len(s) && isHex(s[at+n]) {
		n++
	}
	if n < len("0x")+leastAddress {
		return 0
	}
	return n
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// sameEnd says whether two reports of how a cell ended mean the same where a session has moved: an error is told in other
// words by another backend, and so is a value that stands for itself.
//
// A cell that cannot be read has changed nothing, so it ended alike under whatever name: parsers differ in whether they
// call it a SyntaxError or an IndentationError, and backends in whether they found it before the cell began.
func sameEnd(a, b json.RawMessage) bool {
	var x, y struct {
		Result map[string]json.RawMessage
		Error  *agentkernel.Error
	}
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	if x.Error != nil && y.Error != nil {
		return x.Error.Code == y.Error.Code && sameException(x.Error.Exception, y.Error.Exception) || unreadable(x.Error) && unreadable(y.Error)
	}
	return x.Error == nil && y.Error == nil && x.Result["$repr"] != nil && y.Result["$repr"] != nil
}

// sameException says whether two names are of one exception: a backend without the kernel's own types raises the builtins that they are
// derived from, and one names the module of a type where the other does not.
func sameException(a, b string) bool {
	a, b = typeName(a), typeName(b)
	return a == b || a != "" && a == agentkernel.GuestBase(b) || b != "" && b == agentkernel.GuestBase(a)
}

func typeName(exception string) string {
	if name := exception[strings.LastIndexByte(exception, '.')+1:]; name != "error" {
		return name
	}
	return "PatternError" // of re, as it was called before Python 3.13
}

// unreadable says whether a cell ended because it is no program.
func unreadable(err *agentkernel.Error) bool {
	switch err.Exception {
	case "SyntaxError", "IndentationError", "TabError":
		return true
	}
	return err.Code == agentkernel.CodeSyntax
}
