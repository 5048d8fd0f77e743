# make demo    build the tool and audit the bundled export
# make demo-watch  build it and follow a simulated market for a minute
# make test    everything that CI runs
# make help    the other targets
#
# Needs Go, git and make. Go modules come from the module proxy. `make test`
# installs Debian's prometheus for its promtool where it may; nothing else is
# fetched or installed. The race detector needs a C compiler and is left
# out, with a word about it, where there is none.

GO ?= go
PKG := ./...

# Time for each fuzz target: `make fuzz`, and the short run in `make test`.
FUZZTIME ?= 10m
SMOKETIME ?= 3s
# Only the fuzz targets whose name matches this regular expression.
FUZZ ?=

# The race detector looks for data races, which the short tests reach as well.
RACEFLAGS ?= -short

# How long the tests of one package may take, on a busy machine and under the
# race detector. A healthy run stays far below it.
TESTTIMEOUT ?= 20m
BENCHFLAGS ?=
SOAKFLAGS ?=

# How long the agents of `make demo-watch` trade.
DEMO_SECONDS ?= 60

# The export of `make demo`, the disputed contract that it explains (empty: the
# first one) and the exit codes that verify and explain must end with.
DEMO_DIR ?= testdata/demo
DEMO_CONTRACT ?= 0xc24afe77
DEMO_EXIT ?= 0
DEMO_EXPLAIN_EXIT ?= 3

# Git refuses a checkout that another user owns, a CI volume say, and go build
# stops there. Whoever runs make here has decided to trust it.
ifndef GIT_CONFIG_COUNT
export GIT_CONFIG_COUNT := 1
export GIT_CONFIG_KEY_0 := safe.directory
export GIT_CONFIG_VALUE_0 := $(CURDIR)
endif

# Stages of `make test` run one at a time, in order, also under -j.
.NOTPARALLEL:
.PHONY: help build demo demo-watch test bench soak fuzz lint docs clean \
	test-setup test-build test-unit test-tools test-race test-fuzz test-vuln test-demo test-novoi

say = @printf '\n== %s %s\n' "$$(date +%H:%M:%S)"

help:
	@echo 'make build   the program, as bin/tclk-audit'
	@echo 'make demo    build it and audit the bundled export'
	@echo 'make demo-watch  build it and follow a simulated market for a minute'
	@echo 'make test    everything that CI runs: build, tests, linters, race, fuzz, vulnerabilities, demo'
	@echo 'make bench   speed and memory; BENCHFLAGS=... are passed on'
	@echo 'make soak    a quarter of an hour of the watcher under load; SOAKFLAGS=... are passed on'
	@echo 'make fuzz    each fuzz target in turn; FUZZTIME=10m each, FUZZ=REGEXP to choose'
	@echo 'make lint    the linters and the layering rule alone (make test has them)'
	@echo 'make docs    write the man pages in docs/man again'
	@echo 'make clean   remove what these targets made in this folder'

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/tclk-audit

demo: build
	@sh internal/tools/demo.sh bin/tclk-audit $(DEMO_DIR) $(DEMO_EXIT) $(DEMO_EXPLAIN_EXIT) $(DEMO_CONTRACT)

demo-watch: build
	@CGO_ENABLED=0 $(GO) build -trimpath -o bin/market ./internal/market
	@sh internal/tools/demo-watch.sh bin/tclk-audit bin/market $(DEMO_SECONDS)

test: test-setup test-build test-unit test-tools test-race test-fuzz test-vuln test-demo test-novoi

test-setup:
	$(say) 'setup: what runs here'
	@$(GO) version
	@git --version
	@sh internal/tools/promtool.sh

test-build:
	$(say) 'build: all packages and the program, without cgo'
	@CGO_ENABLED=0 $(GO) build $(PKG)
	@CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/tclk-audit

test-unit:
	$(say) 'test: all packages; with gofmt, vet, staticcheck, go mod tidy and layering'
	@$(GO) test -timeout $(TESTTIMEOUT) $(PKG)

test-tools:
	$(say) 'tools: the tests of the programs that the next stages run'
	@$(GO) test -C internal/tools ./...

test-race:
	$(say) 'race: the same tests under the race detector, without the linters'
	@if ! CGO_ENABLED=1 $(GO) build runtime/cgo 2>/dev/null; then \
		echo "SKIPPED: the race detector needs a C compiler with its headers; $$($(GO) env CC) cannot build runtime/cgo"; \
	else \
		CGO_ENABLED=1 $(GO) test -race -timeout $(TESTTIMEOUT) $(RACEFLAGS) $$($(GO) list $(PKG) | grep -v -e /internal/lint -e /internal/layering); \
	fi

test-fuzz:
	$(say) 'fuzz: each target for $(SMOKETIME)'
	@$(GO) run -C internal/tools ./fuzz -time $(SMOKETIME) ../..

test-vuln:
	$(say) 'vulnerabilities: govulncheck with the database of the module proxy'
	@$(GO) run -C internal/tools ./vulncheck ../..

test-demo:
	$(say) 'demo: the bundled export'
	@sh internal/tools/demo.sh bin/tclk-audit $(DEMO_DIR) $(DEMO_EXIT) $(DEMO_EXPLAIN_EXIT) $(DEMO_CONTRACT)

test-novoi:
	$(say) 'novoi: signatures without curve25519-voi'
	@$(GO) test -tags novoi ./verify

bench:
	$(GO) run ./internal/bench $(BENCHFLAGS)

soak:
	$(GO) run ./internal/bench -only soak $(SOAKFLAGS)

fuzz:
	$(GO) run -C internal/tools ./fuzz -time $(FUZZTIME) -run '$(FUZZ)' ../..

lint:
	$(GO) test ./internal/lint ./internal/layering

# The tests of cmd/tclk-audit compare docs/man with the program.
docs: build
	rm -rf docs/man
	bin/tclk-audit docs docs/man

clean:
	rm -rf bin
