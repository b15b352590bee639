#!/usr/bin/env bash
# Runs a stage of `make test`, and others beside it. Usage: scripts/together.sh <name> <command> [args] [-- <name> <command> [args]] ...
#
# The first speaks as it goes. What another says is shown in one piece when it has ended; it has a low priority, and
# so takes the time in which the first waits. All run to their ends: one may fail for a reason that the others tell.
set -euo pipefail

said=$(mktemp -d)
beside=() # process groups of the others
stop() {
	for group in "${beside[@]}"; do
		kill -- "-$group" 2>/dev/null || true # it has ended
	done
	rm -rf "$said"
}
trap stop EXIT
trap 'exit 130' INT TERM

# aside <file> <name> <command> [args]
aside() {
	local status=0
	nice -n 10 scripts/stage.sh "${@:2}" >"$1" 2>&1 </dev/null || status=$?
	cat "$1" >&2
	return "$status"
}

first=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	first+=("$1")
	shift
done
while [ $# -gt 0 ]; do
	shift # the --
	other=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		other+=("$1")
		shift
	done
	set -m # a process group of its own, to be stopped as a whole
	aside "$said/${other[0]}" "${other[@]}" &
	set +m
	beside+=($!)
done

status=0
scripts/stage.sh "${first[@]}" || status=$?
for pid in "${beside[@]}"; do
	wait "$pid" || status=$?
done
if [ "$status" -ne 0 ]; then
	echo "== not all of it passed: look for FAILED above" >&2
fi
exit "$status"
