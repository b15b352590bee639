#!/bin/sh
# Installs a pinned package.json + package-lock.json into a directory under .cache, checking each package's
# integrity hash. Usage: scripts/npm-ci.sh <directory with package.json> <target directory> [what it is]
set -eu
from=$1
to=$2
what=${3:-$from}

if [ -f "$to/.done" ] && cmp -s "$from/package-lock.json" "$to/.done"; then
	exit 0
fi
printf '==> installing %s with npm into %s\n' "$what" "$to" >&2
mkdir -p "$to"
rm -f "$to/.done"
cp "$from/package.json" "$from/package-lock.json" "$to/"
if ! npm ci --prefix "$to" --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=3 >&2; then
	printf 'error: npm could not install %s.\n       Is the npm registry reachable from here? (npm ping)\n' "$what" >&2
	exit 1
fi
cp "$from/package-lock.json" "$to/.done"
