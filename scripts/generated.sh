#!/bin/sh
# Fails if a generated file is not what `go generate ./...` makes of the sources now. A file counts as
# generated if its first lines say "Code generated ... DO NOT EDIT", in JSON as "$comment".
set -eu
sums() {
	grep -rlE --include='*.go' --include='*.md' --include='*.pyi' --include='*.py' --include='*.json' \
		--exclude-dir=.git --exclude-dir=.cache --exclude-dir=node_modules \
		'^(//|#|<!--|  "[$]comment":) "?Code generated .* DO NOT EDIT' . | sort | xargs sha256sum
}
before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
sums >"$before"
go generate ./...
sums >"$after"
if ! diff "$before" "$after" >/dev/null; then
	echo "error: generated files were out of date; they are now regenerated. Look at them and commit:" >&2
	diff "$before" "$after" | sed -n 's/^> [0-9a-f]*  /       /p' >&2
	exit 1
fi
