//go:build !race

package quickexit

const raced = false
