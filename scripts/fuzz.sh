#!/usr/bin/env bash
# Runs each fuzz target for a while. Usage: scripts/fuzz.sh [regular expression of targets]
#
# FUZZTIME is how long each one runs (2s). An input that fails is kept below testdata/fuzz of its package, and from
# then on is a case of the ordinary tests. New inputs of interest are kept in Go's cache and used by the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${FUZZTIME:-2s}
only=${1:-.}
cache=$(go env GOCACHE)/fuzz
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# fuzz runs one target for so long.
fuzz() {
	(cd "$1" && "$built/fuzz" -test.run='^$' -test.fuzz="^$2\$" -test.fuzztime="$3" -test.fuzzcachedir="$cache/$1" >"$built/said" 2>&1)
}

found=0
failed=()
while read -r dir; do
	targets=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F) {$/\1/p' "$dir"/*_test.go | grep -E "$only" || true)
	[ -n "$targets" ] || continue
	go test -c -vet=off -fuzz=Fuzz -o "$built/fuzz" "./$dir"
	for target in $targets; do
		found=$((found + 1))
		printf '%s %s\n' "$dir" "$target"
		fuzz "$dir" "$target" "$time" || {
			# On a busy machine Go may find its own end of the time to be a failure, without an input that fails
			# (golang.org/issue/75804, until Go 1.27): a number of runs has no such end.
			! grep -q 'Failing input' "$built/said" && grep -q '^ *context deadline exceeded$' "$built/said" && fuzz "$dir" "$target" 1000x
		} || {
			failed+=("$dir $target")
			cat "$built/said"
		}
	done
done < <(grep -rl --include='*_test.go' '^func Fuzz' . | sed 's|^\./||; s|/[^/]*$||' | sort -u)

if [ "$found" -eq 0 ]; then
	printf 'error: no fuzz target matches %s\n' "$only" >&2
	exit 2
fi
if [ "${#failed[@]}" -gt 0 ]; then
	printf 'error: %d of %d fuzz targets failed:\n' "${#failed[@]}" "$found" >&2
	printf '  %s\n' "${failed[@]}" >&2
	exit 1
fi
printf '%d fuzz targets, %s each: none failed\n' "$found" "$time"
