# Everything works in a fresh clone on Debian 12 with Go and make; `make test`
# and `make bench` install the Debian packages that they lack (root or sudo).

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help

# sudo and cron leave these out.
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
# The version is stamped below, and a checkout that belongs to someone else
# would stop go at asking git for one.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 30s

STAMP = -X github.com/cronce/cronce/internal/build.stamped=$(VERSION)
TOOL  = go tool -modfile=.ci/tools.mod

.PHONY: help build run test lint bench packages clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

build: ## build bin/cronce and bin/cronced, static, version from git
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(STAMP)' -o bin/ ./cmd/cronce ./cmd/cronced

run: build ## run examples/crontab on a local store in .run/store, until Ctrl-C
	@mkdir -p .run
	@exec bin/cronce serve --crontab examples/crontab --store '$(CURDIR)/.run/store'

test: packages lint ## lint, all tests with the race detector, every fuzz target for FUZZTIME (30s)
	go test -race -timeout 30m ./...
# Processes are started and killed for real: many more of them without the detector.
	go test -count=1 ./store/localstore
	go test -count=1 -run Crowd ./cmd
	FUZZTIME=$(FUZZTIME) .ci/fuzz

lint: ## gofmt, vet, staticcheck, tidy go.mod files, known vulnerabilities where their list is reachable
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then printf 'gofmt -w is needed:\n%s\n' "$$unformatted"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	$(TOOL) staticcheck ./...
	cd bench && go mod tidy -diff && go vet ./... && go tool -modfile=../.ci/tools.mod staticcheck ./...
	.ci/vulncheck

bench: ## benchmarks of every package, then beside other schedulers and flock(1) (some minutes)
	go test -run '^$$' -bench . -benchmem ./...
	cd bench && go test -bench . -benchtime 1x -timeout 30m

packages: ## install the Debian packages that the tests need, if any is missing
	@.ci/packages

clean: ## remove what the other targets made
	rm -rf bin .run
