#!/bin/sh
# Makes sure that the programs named on the command line are there, and installs those that are missing with
# apt. Nothing is done for what is there already. Usage: scripts/deps.sh go|node|cc|python ...
#
# Go is never installed: it is the one thing that AgentKernel asks for. Node brings the Monty engine and the
# example MCP servers (npm); a C compiler is needed by Go's race detector only.
set -eu

node_major=18
go_minor=26
missing_packages=""

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$1" >&2; shift; for line in "$@"; do printf '       %s\n' "$line" >&2; done; exit 1; }

check_go() {
	command -v go >/dev/null 2>&1 ||
		fail "Go is not installed, or not in PATH." "Install Go 1.$go_minor or newer (https://go.dev/dl), open a new shell and try again."
	have=$(go env GOVERSION)
	minor=$(printf '%s' "$have" | sed -n 's/^go1\.\([0-9][0-9]*\).*/\1/p')
	if [ -n "$minor" ] && [ "$minor" -lt "$go_minor" ]; then
		fail "$have is too old: Go 1.$go_minor or newer is needed." "Install it from https://go.dev/dl."
	fi
}

check_node() {
	if command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; then
		return
	fi
	missing_packages="$missing_packages nodejs npm"
}

# Too old a Node shows as a stack trace of the example servers: say it before that.
check_node_version() {
	have=$(node -p 'process.versions.node.split(".")[0]')
	if [ "$have" -lt "$node_major" ]; then
		fail "Node $have is too old: Node $node_major or newer is needed by the example MCP servers." \
			"Install it from https://nodejs.org/en/download (or with nvm, or NodeSource) and try again." \
			"AgentKernel itself needs no Node: see docs/getting-started.md, \"Without Node\"."
	fi
}

check_cc() {
	for cc in "${CC:-cc}" gcc clang; do
		command -v "$cc" >/dev/null 2>&1 && return
	done
	missing_packages="$missing_packages gcc libc6-dev"
}

# The tests of the process backend run real programs, some of them with numpy and pandas. AgentKernel itself needs no
# Python: its own backend for it says when one is missing.
check_python() {
	[ "$(uname)" = Linux ] || return 0
	for python in "${AGENTKERNEL_PYTHON:-python3}" /usr/bin/python3; do
		"$python" -c 'import numpy, pandas' 2>/dev/null && return
	done
	missing_packages="$missing_packages python3 python3-numpy python3-pandas"
}

install_missing() {
	[ -n "$missing_packages" ] || return 0
	command -v apt-get >/dev/null 2>&1 ||
		fail "missing:$missing_packages, and this machine has no apt." \
			"Install them with your package manager, then run the same command again:" \
			"  macOS: brew install node        Fedora: sudo dnf install nodejs npm gcc" \
			"  Arch: sudo pacman -S nodejs npm gcc    Alpine is not supported (the engine needs glibc)"
	as_root=""
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 ||
			fail "missing:$missing_packages; installing them needs root, and there is no sudo." \
				"As root: apt-get install -y --no-install-recommends$missing_packages"
		as_root="sudo"
	fi
	say "missing:$missing_packages. Installing with: ${as_root:+$as_root }apt-get install -y --no-install-recommends$missing_packages"
	$as_root apt-get update -qq
	# shellcheck disable=SC2086 # one word a package
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing_packages >/dev/null
}

wants_node=""
for want in "$@"; do
	case "$want" in
	go) check_go ;;
	node) check_node; wants_node=1 ;;
	cc) check_cc ;;
	python) check_python ;;
	*) fail "scripts/deps.sh does not know \"$want\": go, node, cc or python" ;;
	esac
done
install_missing
[ -z "$wants_node" ] || check_node_version
