# Targets for people; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PKG := github.com/seed-e934e81e/convert
LDFLAGS := -s -w -X $(PKG)/cli/command.version=$(VERSION) -X $(PKG)/cli/command.commit=$(COMMIT)
TOOLS := -modfile=.ci/tools/go.mod
FUZZTIME ?= 20s

.PHONY: help build demo test check bench fuzz cross wasm-build clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## build bin/convert
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/convert ./cli/convert

demo: build ## convert the tutorial's checkpoint (8 ranks to 4) and prove the result
	./cli/demo.sh

test: ## run every test; sets up what is missing where there is a network
	./.ci/setup.sh
	$(GO) test -count=1 -timeout 20m ./...

check: ## format, vet, lint, import table, WebAssembly and cross builds
	@out=$$($(GO) tool $(TOOLS) gofumpt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool $(TOOLS) staticcheck ./...
	$(GO) test -count=1 -run 'TestImports|TestNoInit' ./core
	$(MAKE) --no-print-directory wasm-build cross

wasm-build: ## build core and formats for WebAssembly
	GOOS=wasip1 GOARCH=wasm $(GO) build ./core/... ./formats/...
	GOOS=js GOARCH=wasm $(GO) build ./core/... ./formats/...

cross: ## build for macOS, Windows and 64-bit Arm
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cli/convert
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cli/convert
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cli/convert

bench: build ## measure the program beside `cp -r` and sync, and the planner
	$(GO) run ./cli/bench
	$(GO) test -run '^$$' -bench 'Plan|Cast|CRC|Copy|Header' -benchtime 1s ./core/... ./formats/...

fuzz: ## fuzz every parser, FUZZTIME each (default 20s)
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; \
	  done; \
	done

clean: ## remove what was built
	rm -rf bin
