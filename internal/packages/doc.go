// Package packages builds environments of Python packages, once, outside every sandbox and with the user's own pip and
// network, and keeps them for programs, which see them read-only and have no network.
//
// An environment is a virtual environment named by what is in it: the interpreter, and each package with the hash of the
// file that it came from. It appears whole or not at all.
//
// What is installed is strangers' code. The package must never run any of it: only wheels are installed unless the
// caller says otherwise, and the interpreter of an environment is not started once something is in it.
package packages
