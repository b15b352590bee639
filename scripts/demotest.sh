#!/bin/sh
# Runs `make demo` as a new user would: with an empty home. What Go has downloaded stays at hand.
set -eu
cd "$(dirname "$0")/.."
home=$(mktemp -d)
trap 'chmod -R u+w "$home"; rm -rf "$home"' EXIT
modules=$(go env GOMODCACHE) builds=$(go env GOCACHE) toolchains=$(go env GOTOOLCHAIN)
unset AGENTKERNEL_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR
status=0
HOME=$home GOMODCACHE=$modules GOCACHE=$builds GOTOOLCHAIN=$toolchains make --no-print-directory demo </dev/null >"$home/said" 2>"$home/steps" || status=$?
if [ "$status" -ne 0 ] || ! grep -qx 42 "$home/said"; then
	cat "$home/steps" "$home/said" >&2
	echo "error: make demo in an empty home: exit code $status; its last program is to print 42" >&2
	exit 1
fi
