// Package cpython runs CPython's own tests twice: outside, as an ordinary user of the same interpreter, and inside the
// walls of the process backend, through its real transport. Each test case must end in the same way. The few that may
// not stand in docs/python.md, each with its reason; a test checks that page against the table here.
//
// scripts/cpython.sh gets the tests.
package cpython
