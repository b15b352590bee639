//go:build race

package quickexit

const raced = true
