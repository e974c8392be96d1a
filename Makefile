# croft: two commands matter, `make run` and `make test`. The rest is for those who work on it.
GO      ?= go
DATA    ?= .croft
PKG     ?= ./...
BENCH   ?= all
FUZZ    ?= 20s
WORKSPACES ?= 500
LOAD    ?= -load.duration 10m -load.workspaces 200 -load.clients 50 -load.kills 3
SIZE     = 81 # MB; raise it in a commit that says why
GUESTS  ?= amd64 arm64
LINT     = bin/tools/golangci-lint
LINTVER  = v2.14.0

# A program of module tools, built, then run here with the arguments that follow.
tool = $(GO) build -C tools -o ../bin/tools/$(1) ./$(1) && bin/tools/$(1)

export ALL # of make test: also the slowest tests
# Static programs, as in a release. scripts/test sets it for the race detector.
export CGO_ENABLED ?= 0

.PHONY: build guests size run test test-quick test-all test-compat test-trpc test-e2b test-release release release-tag attack docs lint words bench bench-cluster load fuzz deps cluster test-cluster cluster-down

build: guests ## bin/croft, stripped, with croft-guest for both architectures inside
	@echo "building bin/croft; the first build compiles about a thousand packages, which takes some minutes"
	$(GO) build -trimpath -ldflags "-s -w" -o bin/ ./cmd/croft

guests: ## croft-guest, compressed, where package guestbin embeds it
	@mkdir -p bin
	@$(GO) build -o bin/pack ./internal/host/guestbin/internal/pack
	for arch in $(GUESTS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/croft-guest-$$arch ./cmd/croft-guest && \
		bin/pack bin/croft-guest-$$arch internal/host/guestbin/bin/linux-$$arch.zst || exit 1; \
	done

size: build ## what bin/croft is made of; fails where it is more than 2 MB above SIZE
	$(call tool,binsize) -recorded $(SIZE) bin/croft

run: build ## croft up on 127.0.0.1:7070, data in ./.croft
	./bin/croft up --data $(DATA)

test: deps build ## all but the slowest tests, under the race detector where that is affordable
	$(GO) vet ./...
	scripts/test $(PKG)

test-quick: guests ## what needs no program but Go, not raced; about three minutes
	QUICK=1 scripts/test $(PKG)

test-all: ## every test, trpc-agent-go's own tests on one provider, and a release
	$(MAKE) test ALL=1
	$(MAKE) test-trpc TRPC=local
	$(MAKE) test-release

test-compat: deps guests test-trpc $(if $(E2B_SUITES),test-e2b) ## side by side with the originals (skillgym, MCP's conformance checks, trpc-agent-go, E2B); prints tables
	$(GO) test -count=1 -v -run 'SideBySide|AnswerAs' ./eval ./eval/suite
	$(GO) test -count=1 -v -run '^TestConformance$$' ./e2e

test-trpc: guests ## trpc-agent-go's own tests over contrib/trpcagent; TRPC=local for one of its providers, TRPC_DIR=DIR with a checkout instead of the pinned version
	cd contrib/trpcagent && $(GO) run ./internal/upstream -provider "$(TRPC)" -dir "$(abspath $(TRPC_DIR))" -known ../../docs/evidence/trpc-agent-go.md

test-e2b: deps guests ## E2B's own tests for JavaScript against croft up; E2B_SUITES=DIR has the repositories E2B and code-interpreter of e2b-dev
	@[ -n "$(E2B_SUITES)" ] || { echo "give E2B_SUITES=DIR, with DIR/E2B and DIR/code-interpreter: git clone https://github.com/e2b-dev/E2B" >&2; exit 2; }
	E2B_SUITES="$(abspath $(E2B_SUITES))" $(GO) test -count=1 -timeout 60m -v -run '^TestE2BSuites$$' ./e2e

test-release: deps ## a release of HEAD: built twice, installed by go install, go get and install.sh in a fresh Debian
	CROFT_TEST_RELEASE=1 $(GO) test -C tools -count=1 -timeout 40m -run '^TestRelease' ./release

cluster: ## a Kubernetes node for tests, in namespaces of its own; the first time it builds Kubernetes, which takes half an hour
	scripts/cluster build
	scripts/cluster up

test-cluster: ## the provider kubernetes and the manifests against the node of "make cluster"; RUN=TestEgress for one test, WORKSPACES=100 for fewer
	RUN='$(RUN)' WORKSPACES=$(WORKSPACES) scripts/test-cluster

cluster-down: ## ends it; the build stays in the cache
	scripts/cluster down

release: ## VERSION=v1.2.3: archives, packages, image, SBOMs, licences and SHA256SUMS in dist; as root, with debootstrap (or IMAGE=false)
	$(call tool,release) build -image=$(or $(IMAGE),true) $(VERSION)

release-tag: ## VERSION=v1.2.3: a tag of HEAD with the guests inside, for go install and go get
	$(call tool,release) tag $(VERSION)

attack: deps build ## every test with Attack in its name; writes docs/evidence/attacks.md
	scripts/attack docs/evidence/attacks.md

docs: ## docs/evidence/providers.md, from what the last make test-all saw
	cp bin/providers.md docs/evidence/providers.md

lint: $(LINT) ## golangci-lint here, and vet for macOS
	$(LINT) run
	cd contrib/trpcagent && ../../$(LINT) run -c ../../.golangci.yml ./...
	cd examples/scratch && ../../$(LINT) run -c ../../.golangci.yml ./...
	cd provider/kubernetes && ../../$(LINT) run -c ../../.golangci.yml ./...
	cd tools && ../$(LINT) run -c ../.golangci.yml ./...
	GOOS=darwin $(GO) vet ./...

words: ## names and comments beside docs/glossary.md and other projects; WORDS=-by-package for percentages alone
	@$(call tool,words) $(WORDS) $(PKG)

bench: build deps ## ratios, side by side in one run; BENCH=grep for one family
	@case "$(BENCH)" in stage|cluster) ;; *) $(call tool,bench) -family $(BENCH) -o tools/bench/results.json ;; esac
	@case "$(BENCH)" in all|stage) cd contrib/trpcagent && $(GO) run ./bench -o ../../tools/bench/stage.json ;; esac
	@[ "$(BENCH)" != cluster ] || $(MAKE) -s bench-cluster

bench-cluster: # family cluster, not of "all": it needs the node of "make cluster"
	scripts/cluster up
	cd provider/kubernetes && ../../scripts/cluster run $(GO) test -run '^$$' -bench . -benchtime 30x .
	$(GO) test -run '^$$' -bench '^BenchmarkReplicas$$' -benchtime 5s ./daemon

load: deps guests ## 50 SDK clients on 200 workspaces for 10 minutes, with three kill -9 of the server; LOAD= for other sizes
	$(GO) test -count=1 -timeout 60m -v -run '^TestLoad$$' ./e2e $(LOAD)

fuzz: ## every fuzz target for $(FUZZ)
	scripts/fuzz $(FUZZ)

deps: ## what tests need, from packages by name
	scripts/deps

$(LINT):
	GOBIN=$(CURDIR)/bin/tools $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTVER)
