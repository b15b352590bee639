#!/bin/sh
# Fails if a Markdown file links to a file that is not there.
set -eu
status=0
for file in *.md docs/*.md; do
	# shellcheck disable=SC2013 # a link has no space
	for target in $(grep -oE '\]\([^)#: ]+[)#]' "$file" | sed -E 's/^\]\(//; s/[)#]$//' | sort -u); do
		if [ ! -e "$(dirname "$file")/$target" ]; then
			echo "error: $file links to $target, which is not there" >&2
			status=1
		fi
	done
done
exit $status
