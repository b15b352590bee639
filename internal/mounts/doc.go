// Package mounts says whether two directories of this machine are, or hold, the same files under different names: a bind
// mount gives a directory a second path that no link shows. It must never change a mount.
package mounts
