#!/bin/sh
# Builds and vets the module, tests included, for the platforms that it is not tested on.
set -eu
for target in darwin/arm64 linux/arm64; do
	printf '==> build and vet for %s\n' "$target" >&2
	GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build -trimpath ./...
	GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet -trimpath ./...
done
