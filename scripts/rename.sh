#!/bin/sh
# Gives the module another import path: scripts/rename.sh example.org/agentkernel
# The path stands in go.mod and in the imports that follow from it, nowhere else.
set -eu
new=${1:-}
[ -n "$new" ] || { echo "error: say the new path: make rename MODULE=example.org/agentkernel" >&2; exit 2; }
old=$(go list -m)
[ "$old" != "$new" ] || { echo "the module is called $new already" >&2; exit 0; }
pattern=$(printf '%s' "$old" | sed 's/[.[\*^$/]/\\&/g')
target=$(printf '%s' "$new" | sed 's/[&/\\]/\\&/g')
go mod edit -module "$new"
# In Go files an import is a quoted path on a line of its own, behind an optional name.
find . -name '*.go' -not -path './.cache/*' -not -path './.git/*' -exec sed -i -E \
	-e "s/^(import )?([[:space:]]*)(([A-Za-z_.][A-Za-z0-9_]*)[[:space:]]+)?\"$pattern(\/[^\"]*)?\"\$/\1\2\3\"$target\5\"/" \
	-e "s/^(\/\/go:generate .* -import )$pattern\//\1$target\//" \
	-e "s/^const module = \"$pattern\"\$/const module = \"$target\"/" {} +
find . -name "*.go" -not -path "./.cache/*" -exec gofmt -w {} +
go build ./... && echo "$old is now $new"
