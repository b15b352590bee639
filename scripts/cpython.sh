#!/bin/sh
# Gets CPython's own tests for a Python of this machine, for internal/sandbox/sandboxtest/cpython: a virtual environment
# in .cache/cpython whose directory cpython/test is the package `test` with all its modules. Debian and Ubuntu have them
# in a package of their own (libpython3.11-testsuite), which is unpacked there and not installed: installing it would
# bring Python itself to another version.
set -eu
to=.cache/cpython

say() { printf '==> %s\n' "$*" >&2; }

[ "$(uname)" = Linux ] || exit 0
chosen=""
for python in "${AGENTKERNEL_PYTHON:-python3}" /usr/bin/python3; do
	command -v "$python" >/dev/null 2>&1 || continue
	if "$python" -c 'import test.test_json' 2>/dev/null; then chosen=$python && break; fi
done
package=""
if [ -z "$chosen" ] && [ -x /usr/bin/python3 ] && command -v apt-get >/dev/null 2>&1; then
	chosen=/usr/bin/python3
	package=libpython$($chosen -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite
fi
if [ -z "$chosen" ]; then
	say "no Python here has its own tests, and there is no apt to get them: CPython's tests are left out"
	exit 0
fi
version=$("$chosen" -c 'import sys; print(sys.executable, sys.version)')
[ "$(cat "$to/version" 2>/dev/null)" = "$version" ] && exit 0

rm -rf "$to"
"$chosen" -m venv --without-pip "$to"
mkdir -p "$to/cpython" "$to/unpacked"
library=$("$chosen" -c 'import os, test; print(os.path.dirname(test.__file__))')
cp -R "$library" "$to/cpython/test"
if [ -n "$package" ]; then
	say "getting $package into $to"
	(cd "$to/unpacked" && apt-get download -qq "$package" 2>/dev/null) || {
		as_root=""
		[ "$(id -u)" -eq 0 ] || as_root=sudo
		$as_root apt-get update -qq
		(cd "$to/unpacked" && apt-get download -qq "$package")
	}
	dpkg-deb -x "$to/unpacked/"*.deb "$to/unpacked"
	cp -R "$to/unpacked/usr/lib/"python3*/test/. "$to/cpython/test/"
fi
rm -rf "$to/unpacked"
printf '%s\n' "$version" >"$to/version"
