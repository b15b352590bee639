#!/bin/sh
# Runs one stage of `make test` and says how long it took. Usage: scripts/stage.sh <name> <command> [args]
set -eu
name=$1
shift
printf '\n== %s\n' "$name" >&2
start=$(date +%s)
status=0
"$@" || status=$?
took=$(($(date +%s) - start))
if [ "$status" -ne 0 ]; then
	printf '== %s FAILED after %d s\n' "$name" "$took" >&2
	exit "$status"
fi
printf '== %s ok, %d s\n' "$name" "$took" >&2
