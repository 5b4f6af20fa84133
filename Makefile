# Everything works in a fresh clone on Debian 12 with Go and make; `make test`,
# `make bench` and `make night` install the Debian packages that they lack (root or sudo).

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

# Where build puts things, and where install does; DESTDIR is for packages.
OUT     ?= bin
PREFIX  ?= /usr/local
DESTDIR ?=

STAMP = -X github.com/cronce/cronce/internal/build.stamped=$(VERSION)
TOOL  = go tool -modfile=.ci/tools.mod

.PHONY: help build install run night test lint bench chaos chaos-mutants packages clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

build: ## build bin/cronce and bin/cronced, static, version from git; their manual pages and completion
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(STAMP)' -o $(OUT)/ ./cmd/cronce ./cmd/cronced
	@mkdir -p $(OUT)/man $(OUT)/completion
	go run ./packaging/man $(OUT)/cronce $(OUT)/man
	@$(OUT)/cronce completion bash >$(OUT)/completion/cronce
	@$(OUT)/cronce completion zsh >$(OUT)/completion/_cronce
	@$(OUT)/cronce completion fish >$(OUT)/completion/cronce.fish

# Not built here, so that root need not: make build && sudo make install
install: ## put what build has made below PREFIX (/usr/local): programs, manual pages, completion, systemd units
	@[[ -x $(OUT)/cronced ]] || { echo "There is no $(OUT)/cronced: make build comes first"; exit 1; }
	install -D -t '$(DESTDIR)$(PREFIX)/bin' $(OUT)/cronce $(OUT)/cronced
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/man/man1' $(OUT)/man/*.1
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/man/man5' $(OUT)/man/*.5
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/man/man8' $(OUT)/man/*.8
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' $(OUT)/completion/cronce
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' $(OUT)/completion/_cronce
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d' $(OUT)/completion/cronce.fish
	install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/lib/systemd/system' packaging/*.service
	sed -i 's,/usr/local/bin/,$(PREFIX)/bin/,' '$(DESTDIR)$(PREFIX)'/lib/systemd/system/cronce*.service

run: build ## run examples/crontab on a local store in .run/store, until Ctrl-C
	@mkdir -p .run
	@exec bin/cronce serve --crontab examples/crontab --store '$(CURDIR)/.run/store'

night: packages ## see examples/policy-server over 100 ticks, restarts and a kill -9, on a local store and a Redis (4 minutes)
	go run ./examples/policy-server/night -ticks 100 -store local
	go run ./examples/policy-server/night -ticks 100 -store redis

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

# STORE=redis, postgres or mariadb for one of them; SEED=N for faults that were made before.
CHAOS = go test -v -count=1 -timeout 60m ./internal/chaos $(if $(STORE),-store $(STORE)) $(if $(SEED),-seed $(SEED))

chaos: packages ## hurt a fleet on each store that hosts share for 10,000 ticks, and count what came of them (some minutes each)
	$(CHAOS) -run TestChaos -ticks 10000

chaos-mutants: packages ## see that stores which break a rule are found out by that (some minutes)
	$(CHAOS) -run TestMutants -mutants

packages: ## install the Debian packages that the tests need, if any is missing
	@.ci/packages

clean: ## remove what the other targets made
	rm -rf bin .run
