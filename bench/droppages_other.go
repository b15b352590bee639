//go:build !linux

package main

import "errors"

// dropPages is for Linux.
func dropPages(string) error { return errors.New("pages of files can be dropped on Linux only") }
