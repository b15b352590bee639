#!/bin/sh
# A test that sleeps is slow on a good day and wrong on a bad one. Allowed are files on synctest's fake clock,
# programs that tests start to have something slow (tooltest), and lines that say why: `// nolint:forbidigo // why`.
set -eu
# shellcheck disable=SC2038 # no test file has a space in its name
found=$(find . -name '*_test.go' -not -path './.cache/*' -exec grep -L 'testing/synctest' {} + |
	xargs -r grep -n 'time\.Sleep(' /dev/null | grep -v 'nolint:forbidigo // ' || true)
if [ -n "$found" ]; then
	echo "error: time.Sleep in tests; wait for a condition, a channel or synctest's clock:" >&2
	echo "$found" >&2
	exit 1
fi
