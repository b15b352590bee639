#!/bin/sh
# Installs the Monty engine for development and tests into .cache/monty. Users get theirs by
# `agentkernel setup`, from the same pinned files.
set -eu
from=internal/setup/engine
to=.cache/monty
version=$(sed -n 's/.*"@pydantic\/monty-linux-x64-gnu": "\([0-9.]*\)".*/\1/p' "$from/package.json")
platform=$(uname -s)-$(uname -m)

case "$platform" in
Linux-x86_64) exec scripts/npm-ci.sh "$from" "$to" "the Monty engine $version" ;;
Linux-aarch64) package=@pydantic/monty-linux-arm64-gnu ;;
Darwin-arm64) package=@pydantic/monty-darwin-arm64 ;;
Darwin-x86_64) package=@pydantic/monty-darwin-x64 ;;
*)
	printf 'error: there is no Monty engine for %s; the tests that need it will fail.\n' "$platform" >&2
	exit 1
	;;
esac
# The lock file covers Linux on x86-64 only, the one platform on which this is tested.
[ -x "$to/node_modules/$package/monty" ] && exit 0
printf '==> installing %s@%s with npm into %s (this platform is untested)\n' "$package" "$version" "$to" >&2
mkdir -p "$to"
npm install --prefix "$to" --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error "$package@$version" >&2
