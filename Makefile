# AgentKernel. `make` alone lists the targets. Everything that is downloaded or cached lies in .cache and in Go's
# own caches; nothing is installed into the system except by scripts/deps.sh, which says what it does.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help build demo test check lint generate unit cross fuzz bench bench-tokens soak bench-million test-cpython cpython deps engine mcp llmsdks data clean rename install uninstall

# A tagged commit has its tag's version; any other says which commit it is.
VERSION ?= $(shell git describe --tags --exact-match 2>/dev/null | sed 's/^v//' | grep . || echo 0.1.0-dev+$$(git describe --always --dirty 2>/dev/null || echo unknown))
LDFLAGS := -s -w -X main.version=$(VERSION)

# A checkout without git, or owned by another user, must build too. Without the directory in what is compiled, all that
# builds (vet, tests, binaries, other platforms) shares it, also from one checkout to the next.
export GOFLAGS ?= -buildvcs=false -trimpath

LINT_VERSION := v2.15.0
LINT := .cache/bin/golangci-lint-$(LINT_VERSION)

# SQLite is C that was translated. It works on memory outside Go's heap, at which the race detector does not look, and
# asking it at each access makes the store many times slower. What calls it is watched like all else.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# Tests get 80 minutes a package at most: few need one, but machines may be busy.
TESTFLAGS ?= $(RACE) -timeout 80m
# Many packages wait as much as they compute: one more than there are processors runs at a time, those that take longest
# first, so that none of them is left alone at the end. What they print comes in this order.
JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
LONGEST := $(addprefix ./,internal/e2e internal/tool internal/sandbox/process internal/store/sqlite cmd/agentkernel \
	internal/sandbox/confine internal/sandbox/monty examples internal/sandbox/sandboxtest/cpython internal/kernel \
	internal/llm/control internal/llm/openai)
# What go test itself vets is a part of what lint does: `make test` turns it off.
VET ?=

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./agentkernel (static, no cgo)
	@scripts/deps.sh go
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o agentkernel ./cmd/agentkernel

# Where install puts things; DESTDIR is for packages.
PREFIX ?= /usr/local
ifneq (,$(findstring ~,$(PREFIX)))
$(error PREFIX=$(PREFIX): a shell does not replace ~ there; write PREFIX=$$HOME/...)
endif
SHARE = $(DESTDIR)$(PREFIX)/share
BASH_DIR = $(SHARE)/bash-completion/completions
ZSH_DIR = $(SHARE)/zsh/site-functions
FISH_DIR = $(SHARE)/fish/vendor_completions.d

install: build ## install the command, its manual pages and completions below PREFIX (/usr/local)
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(SHARE)/man/man1' '$(BASH_DIR)' '$(ZSH_DIR)' '$(FISH_DIR)'
	install -m 755 agentkernel '$(DESTDIR)$(PREFIX)/bin/agentkernel'
	./agentkernel man '$(SHARE)/man/man1'
	./agentkernel completion bash >'$(BASH_DIR)/agentkernel'
	./agentkernel completion zsh >'$(ZSH_DIR)/_agentkernel'
	./agentkernel completion fish >'$(FISH_DIR)/agentkernel.fish'

uninstall: ## remove what install put below PREFIX; data directories stay
	rm -f '$(DESTDIR)$(PREFIX)/bin/agentkernel' '$(SHARE)/man/man1/agentkernel.1' '$(SHARE)/man/man1/agentkernel-'*.1 \
		'$(BASH_DIR)/agentkernel' '$(ZSH_DIR)/_agentkernel' '$(FISH_DIR)/agentkernel.fish'

demo: ## install what is missing, build, set up the engine, run the sales report
	@scripts/demo.sh

test: ## everything that CI checks: generated files, format, vet, lint, tests with -race, other platforms, fuzz targets
	@scripts/deps.sh go node cc python
	@scripts/stage.sh generated scripts/generated.sh
	@scripts/together.sh unit $(MAKE) --no-print-directory unit VET=-vet=off -- lint $(MAKE) --no-print-directory lint -- cross scripts/cross.sh -- fuzz scripts/fuzz.sh -- demo scripts/demotest.sh
	@echo "all of it passed"

unit: engine mcp llmsdks data cpython ## only the tests (TESTFLAGS, PKG=./internal/...)
	@scripts/deps.sh go cc python
	go test -p $(JOBS) $(VET) $(TESTFLAGS) $(or $(PKG),$(LONGEST) ./...)

lint: $(LINT) ## gofmt, go vet, golangci-lint
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "error: not formatted; run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi
	@scripts/nosleep.sh
	@scripts/links.sh
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 $(LINT) run --allow-parallel-runners ./...

# The linter is a program of its own module: its licence (GPL) and its dependencies stay out of ours.
$(LINT): tools/go.mod tools/go.sum
	@scripts/deps.sh go
	@echo "==> building golangci-lint $(LINT_VERSION) (about a minute, once)" >&2
	@mkdir -p $(@D)
	cd tools && go build -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

generate: ## rewrite the generated files
	@scripts/deps.sh go
	go generate ./...

cross: ## build and vet for darwin/arm64 and linux/arm64
	@scripts/cross.sh

fuzz: ## run each fuzz target for FUZZTIME (5m); FUZZ=FuzzDecode for some only
	@scripts/deps.sh go
	@FUZZTIME=$(or $(FUZZTIME),5m) scripts/fuzz.sh $(FUZZ)

bench: engine mcp ## measure; writes a Markdown table to stdout
	@scripts/deps.sh go node
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o agentkernel ./cmd/agentkernel
	go run ./bench $(BENCHFLAGS)

bench-million: engine ## a million parked processes: memory, disk, waking, restart; takes half an hour (SLEEPERS=100000)
	@scripts/deps.sh go node
	go run ./bench -only million -sleepers $(or $(SLEEPERS),1000000) $(BENCHFLAGS)

bench-tokens: engine mcp ## count the tokens that programs save; writes a Markdown table to stdout (TOKENSFLAGS='-way default')
	@scripts/deps.sh go node
	@go run ./bench/tokens $(TOKENSFLAGS)

soak: engine mcp data ## the crash tests, long: SOAK=100 kills, and 200 programs behind walls and 1,000 simulations for each
	@scripts/deps.sh go node cc python
	AGENTKERNEL_SOAK=$(or $(SOAK),100) go test $(RACE) -timeout 60m -run 'Soak|Crash|Kill|ExactlyOnce' -skip '^TestSoak$$' -v ./...
	@# It counts memory, of which the race detector takes more the longer it runs.
	AGENTKERNEL_SOAK=$(or $(SOAK),100) go test -timeout 60m -run '^TestSoak$$' -v ./internal/sandbox/process
	@# A seed takes about 50 ms; hours are better: SOAK=1000.
	AGENTKERNEL_SOAK=$(or $(SOAK),100) go test -timeout 24h -run '^TestSim$$' -v ./internal/sim

test-cpython: cpython ## CPython's own tests outside and inside, the long list
	@scripts/deps.sh go python
	AGENTKERNEL_CPYTHON=all go test -timeout 60m -v ./internal/sandbox/sandboxtest/cpython

cpython: ## get CPython's own tests into .cache/cpython
	@scripts/cpython.sh

engine: ## install the Monty engine for development into .cache/monty
	@scripts/deps.sh node
	@scripts/engine.sh

mcp: ## install the MCP servers of examples and tests into .cache/mcp
	@scripts/deps.sh node
	@scripts/npm-ci.sh scripts/mcp .cache/mcp "the example MCP servers"

llmsdks: ## install the official clients of model providers, for tests, into .cache/llmsdks
	@scripts/deps.sh node
	@scripts/npm-ci.sh scripts/llmsdks .cache/llmsdks "the clients of model providers"

data: examples/data/sales.csv examples/data/stocks/history.csv ## make the examples' data (50,000 sales, 10,000 stock prices)
examples/data/sales.csv: examples/gen/main.go
	@scripts/deps.sh go
	@go run ./examples/gen -o $@
examples/data/stocks/history.csv: examples/gen/stocks.go
	@scripts/deps.sh go
	@go run ./examples/gen -stocks -rows 10000 -o $@

deps: ## install what is missing of Node, npm and a C compiler
	@scripts/deps.sh go node cc

clean: ## remove what was built; CACHE=1 also removes .cache
	rm -rf agentkernel dist examples/data/*.csv examples/data/stocks examples/data/tasks
	@if [ -n "$(CACHE)" ]; then rm -rf .cache; fi

rename: ## give the module another import path: make rename MODULE=example.org/agentkernel
	@scripts/rename.sh '$(MODULE)'
