# "make help" lists the targets. On a fresh Debian machine "make bench" and "make test" install what
# they miss with apt-get; elsewhere they say what is missing. Go 1.26 or later is needed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL: # two builds at once would fight for the cores that the tests need

BIN := bin
GO ?= go

# Debian packages, by what needs them: the build (cgo and libfabric), its tests, its measurements.
BUILD_PACKAGES := gcc libc6-dev pkg-config libfabric-dev
BENCH_PACKAGES := $(BUILD_PACKAGES) libfabric-bin
COMPARE_PACKAGES := $(BENCH_PACKAGES) ucx-utils openmpi-bin libopenmpi-dev iperf3
MPI_PACKAGES := gcc libc6-dev openmpi-bin libopenmpi-dev mpich libmpich-dev
RECOVERY_PACKAGES := $(BUILD_PACKAGES) iproute2 nftables iperf3
TEST_PACKAGES := $(BENCH_PACKAGES) $(RECOVERY_PACKAGES) git influxdb prometheus tshark
TEST_PACKAGES += iputils-ping arping # of test/vnic
TEST_PACKAGES += curl # of test/readme
TEST_PACKAGES += $(MPI_PACKAGES) # of cmd/mpibench/compare, test/launch
TEST_PACKAGES += wireguard-tools wireguard-go # of test/netns
TEST_PACKAGES += groff-base # of test/commands
TEST_PACKAGES += slurmctld slurmd slurm-client munge # of test/launch

VNIC_PACKAGES := iproute2 iputils-ping arping iperf3 wireguard-tools wireguard-go n2n tinc

# What "make bench" measures: latency, bandwidth, message rate, of the bare fabric and of the transport.
BENCH_TESTS ?= lat,bw,rate
BENCH_FLAGS ?= --layer both

# How many peers "make shm-long" kills, and for how long it sends vandals.
SHM_FLAGS ?= -shm.kills=1000 -shm.vandals=1m

FUZZTIME ?= 30s

# Rounds of "make vnic-compare" and of "make tunnel-compare".
VNIC_ROUNDS ?= 5
TUNNEL_ROUNDS ?= 5

# The simulator: how many runs, from which seed on; the seed to replay.
SEEDS ?= 1000
FIRST ?= 1
SEED ?=
TRACE_SEEDS ?= 256
BASE ?=
REPLAY_DIR ?= $(BIN)/replay
PACKAGES ?= ./...

# What the race detector has nothing to find in: packages of one goroutine, and tests of processes
# that are built without it. Of btl and stream it runs the tests of what goroutines may share.
NOT_RACED := btl|btl/internal/.*|examples/.*|fabric/sim|frag|hotel|internal/.*|reliability|stream
NOT_RACED := $(NOT_RACED)|cmd/(btlbench/(compare|page|plan)|btlrun|mpibench/compare)|launch/pmi
NOT_RACED := $(NOT_RACED)|fabric/internal/.*|mpi/coll|vnic(/emfile|/offload|/tap)?
NOT_RACED := $(NOT_RACED)|pml|test/(cli|commands|readme|hostile(/.*)?|launch|netns(/.*)?|sim/.*|stranger|stream|vnic|wireshark)
RACED_BTL := Regions|Registrations|Stats
RACED_STREAM := Port|Held|Meeting|Example|RingEnds|StdIO

# gotestsum runs the tests of packages. Many tests start processes and wait for them; on a machine that
# does something else such a test can fail once. So a failed test runs a second time, alone, and the
# summary lists both runs. A data race, or a fourth failure, ends the run at once.
# lint has vetted the packages already. Many tests wait most of the time, so the tests of one package
# more than there are processors run at once.
define gotestsum
	$(GOTESTSUM) --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-abort-on-data-race \
	  --packages="$$($(GO) list $(1) | tools/slow-first.sh | xargs)" \
	  -- -p $(TEST_PACKAGES_AT_ONCE) -vet=off -shuffle=on -timeout=20m
endef
TEST_PACKAGES_AT_ONCE ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# The skipped tests are listed with their reasons, and the last line has the counts.
GOTESTSUM := $(GO) tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg \
	  --post-run-command tools/test-counts.sh
GOLANGCI := $(GO) tool -modfile=tools/go.mod golangci-lint

# need installs the Debian packages that are missing.
define need
	@missing=; for p in $(1); do \
	  dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || missing+=" $$p"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
	  echo "make: no apt-get here; trusting that this system has what Debian calls$$missing" >&2; exit 0; \
	fi; \
	sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
	echo "make: installing$$missing"; \
	$$sudo apt-get -q update && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $$missing
endef

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps deps-build deps-bench deps-go
deps: deps-go ## Install what tests and measurements need
	$(call need,$(TEST_PACKAGES))

deps-build: deps-go
	$(call need,$(BUILD_PACKAGES))

deps-bench: deps-go
	$(call need,$(BENCH_PACKAGES))

deps-go:
	@command -v $(GO) >/dev/null || { \
	  echo "make: no '$(GO)' in PATH; install Go 1.26 or later from https://go.dev/dl/" >&2; exit 1; }

BUILD_FLAGS ?= -trimpath

.PHONY: build
build: deps-build ## Build the programs into bin/
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ ./cmd/btlbench ./cmd/btlrun ./cmd/btlstream ./cmd/btlvnic ./cmd/mpibench

.PHONY: package
package: deps-go ## Build a Debian package of the programs in bin/package, without root or network
	tools/debian/package.sh $(BIN)/package

.PHONY: container
container: deps-go ## Make bin/container, from which docker or podman builds an image without a network
	tools/container/context.sh $(BIN)/container

.PHONY: container-test
container-test: container ## Build that image with buildah, as root and without a network, and run it
	$(call need,buildah)
	tools/container/test.sh $(BIN)/container

.PHONY: bench
bench: deps-bench build ## Measure latency and bandwidth on this machine
	$(BIN)/btlbench pair --test $(BENCH_TESTS) $(BENCH_FLAGS)

.PHONY: compare compare-host compare-mpi busy compare-calls compare-streams deps-compare
compare: deps-bench build ## Measure beside libfabric, UCX, Open MPI, iperf3; update the docs
	$(BIN)/btlbench compare --update-docs docs/performance.md $(COMPARE_FLAGS)
	$(BIN)/btlbench compare --table host --update-docs docs/performance.md $(COMPARE_FLAGS)

compare-host: deps-bench build ## The second table of "make compare" alone: two processes of one host
	$(BIN)/btlbench compare --table host --update-docs docs/performance.md $(COMPARE_FLAGS)

compare-mpi: build ## Measure mpi beside Open MPI and MPICH; update the docs
	$(call need,$(MPI_PACKAGES))
	$(BIN)/mpibench compare --update-docs docs/mpi.md $(COMPARE_MPI_FLAGS)

# The layers take 20 s for each round and kind of neighbour.
BUSY_KINDS ?= quiet loops sessions nice wakes
# The kinds whose tables are in the document; the tables of other kinds are only printed.
BUSY_DOCS = quiet loops

busy: build ## Measure mpi and layers of btl while others compute on the same CPUs; update the docs
	$(call need,$(MPI_PACKAGES))
	for kind in $(BUSY_KINDS); do \
	  case " $(BUSY_DOCS) " in *" $$kind "*) docs="--update-docs docs/busy.md" ;; *) docs= ;; esac; \
	  $(BIN)/mpibench compare --beside $$kind $$docs $(BUSY_FLAGS); \
	  $(BIN)/mpibench compare --beside $$kind --layers $$docs $(BUSY_FLAGS); \
	done

compare-calls: deps-go ## Measure btl/call beside net/rpc and gRPC; update the docs
	cd test/calls && $(GO) build -trimpath -o ../../$(BIN)/calls .
	$(BIN)/calls --update-docs docs/performance.md $(CALLS_FLAGS)

compare-streams: deps-go ## Measure streams beside TCP, quic-go and kcp-go, as root; update the docs
	$(call need,$(RECOVERY_PACKAGES))
	cd test/streams && $(GO) build -trimpath -o ../../$(BIN)/streams .
	$(BIN)/streams --update-docs docs/performance.md $(STREAMS_FLAGS)

deps-compare: deps-go ## Install the peers of "make compare"
	$(call need,$(COMPARE_PACKAGES))

.PHONY: recovery
recovery: deps-go ## Measure loss, bottlenecks, incast beside TCP and rxd, as root; update the docs
	$(call need,$(RECOVERY_PACKAGES))
	$(GO) build -o $(BIN)/recovery ./test/netns/cmd/recovery
	$(BIN)/recovery --update-docs docs/recovery.md $(RECOVERY_FLAGS)

.PHONY: vnic-compare
vnic-compare: deps-go ## Measure btlvnic beside VXLAN, WireGuard, n2n, tinc, and with loss, as root
	$(call need,$(VNIC_PACKAGES))
	$(GO) test ./test/vnic -run '^TestCompare' -v -timeout 60m -vnic.rounds=$(VNIC_ROUNDS)

.PHONY: tunnel-compare
tunnel-compare: deps-go ## Measure streams through wireguard-go beside TCP, as root
	$(call need,iproute2 iperf3 wireguard-tools wireguard-go)
	$(GO) test ./test/netns -run '^TestTunnelCompare$$' -v -tunnel.rounds=$(TUNNEL_ROUNDS)

# The tests with the race detector come last, so the log ends with their summary.
# A build with the flags of the tests compiles what they need.
.PHONY: test
test: BUILD_FLAGS :=
test: deps build lint nocgo unit smoke race ## Do all that CI does

.PHONY: unit
unit: ## Run the tests
	$(call gotestsum,$(PACKAGES))

# The seeds and the sizes of messages that unit leaves out.
.PHONY: long
long: deps-go ## Run the tests on the simulator with 1300 seeds, and messages of all sizes
	GOBTL_TEST_SEEDS=1300 $(GO) test -count=1 -timeout 30m ./test/sim
	$(GO) test -count=1 -timeout 30m ./test/sim/matrix -args -matrix.all

# What check runs: no package that needs root, a server, libfabric, other programs or many minutes.
CHECKED := gobtl(/(btl|fabric|frag|hotel|internal|pml|reliability|stream|vnic)(/.*)?)?

.PHONY: check
check: deps-go ## Run the tests that need Go alone: no privileges, nothing installed, a few minutes
	@packages=$$(CGO_ENABLED=0 $(GO) list ./... | grep -xE '$(CHECKED)'); \
	CGO_ENABLED=0 $(GOTESTSUM) -- -p $(TEST_PACKAGES_AT_ONCE) -short $(CHECK_FLAGS) \
	  $$(tools/slow-first.sh <<<"$$packages")

.PHONY: race
race: ## Run the tests of what has goroutines with the race detector
	@packages=$$($(GO) list $(PACKAGES)); \
	if grep -qx gobtl/btl <<<"$$packages"; then \
	  $(strip $(call gotestsum,./btl)) -race -run '$(RACED_BTL)'; \
	fi; \
	if grep -qx gobtl/stream <<<"$$packages"; then \
	  $(strip $(call gotestsum,./stream)) -race -run '$(RACED_STREAM)'; \
	fi; \
	packages=$$(grep -vxE 'gobtl/($(NOT_RACED))' <<<"$$packages" || true); \
	if [ -n "$$packages" ]; then $(strip $(call gotestsum,$$packages)) -race; fi

# PKG_CONFIG_LIBDIR, not _PATH: where PREFIX has no libfabric the system's must not stand in for it.
.PHONY: test-ofi
test-ofi: deps-go ## Test fabric/ofi with the libfabric in PREFIX, or with that of a Debian release (DEBIAN=trixie)
	@if [ -n "$(DEBIAN)" ]; then exec $(MAKE) --no-print-directory test-ofi-debian; fi; \
	test -n "$(PREFIX)" || { \
	  echo "make: say where libfabric is: make test-ofi PREFIX=/opt/libfabric, or DEBIAN=trixie" >&2; exit 1; }; \
	export PKG_CONFIG_LIBDIR=$$(ls -d $(abspath $(PREFIX))/{lib,lib64,lib/*}/pkgconfig 2>/dev/null | paste -sd:); \
	version=$$(pkg-config --modversion libfabric 2>/dev/null) || { \
	  echo "make: no libfabric.pc under $(PREFIX)/lib, lib64 or lib/*: is libfabric installed there?" >&2; exit 1; }; \
	lib=$$(pkg-config --variable=libdir libfabric); \
	test -e "$$lib/libfabric.so" || { echo "make: no libfabric.so in $$lib" >&2; exit 1; }; \
	echo "make: libfabric $$version in $$lib"; \
	export GOBTL_LIBFABRIC=$$lib LD_LIBRARY_PATH=$$lib CGO_CFLAGS="-O2 -g $$(pkg-config --cflags libfabric)" \
	  CGO_LDFLAGS="-L$$lib -Wl,-rpath,$$lib"; \
	$(GO) test -vet=off -count=1 ./fabric/ofi; \
	$(GO) test -vet=off -count=1 -run 'TestConformance/^ofi_' ./test/conformance

# The tests' programs are linked with that release's own dynamic linker and C library; nothing of it is
# installed here.
.PHONY: test-ofi-debian
test-ofi-debian:
	@case "$$(dpkg --print-architecture)" in amd64) ;; *) echo "make: for amd64 alone" >&2; exit 1;; esac; \
	version=$$(tools/debian/unpack.sh $(DEBIAN) $(BIN)/debian-$(DEBIAN) libfabric1); \
	lib=$(abspath $(BIN))/debian-$(DEBIAN)/root/usr/lib/x86_64-linux-gnu; \
	echo "make: libfabric $$version of Debian's $(DEBIAN)"; \
	export GOBTL_LIBFABRIC=$$lib; \
	linked="-linkmode=external -extldflags '-Wl,--dynamic-linker=$$lib/ld-linux-x86-64.so.2"; \
	linked+=" -Wl,--disable-new-dtags -Wl,-rpath,$$lib'"; \
	$(GO) test -vet=off -count=1 -ldflags "$$linked" ./fabric/ofi; \
	$(GO) test -vet=off -count=1 -ldflags "$$linked" -run 'TestConformance/^ofi_' ./test/conformance

.PHONY: lint
lint: ## Check formatting, go.mod, linters (vet and staticcheck among them)
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then printf 'not gofmted:\n%s\n' "$$unformatted" >&2; exit 1; fi
	$(GO) mod tidy -diff
	$(GOLANGCI) run ./...

# Without cgo libfabric is left out; everything else must still build. The target systems checks types
# and vets all packages without cgo. So go vet runs only for the package that has other files without
# cgo, and the programs stand for what only a real build can find. Tests run where cgo makes a
# difference: in what chooses providers, lacks libfabric, has threads, or is the system's calls; -short
# leaves out the variants of the last. -trimpath lets test/readme and other tests use what is compiled
# here. The programs for Windows stand for what only a real build for another system can find.
.PHONY: nocgo
nocgo: systems ## Build, vet and test without cgo, check the other systems
	CGO_ENABLED=0 $(GO) build -trimpath ./cmd/...
	CGO_ENABLED=0 $(GO) vet -trimpath ./fabric/ofi
	export CGO_ENABLED=0; $(strip $(call gotestsum,$(NOCGO_PACKAGES))) -trimpath -short
	export CGO_ENABLED=0; $(strip $(call gotestsum,./test/conformance)) -trimpath -short -run '$(NOCGO_SCENARIOS)'
	CGO_ENABLED=0 GOOS=windows $(GO) build -trimpath -o $(BIN)/windows/ ./cmd/...

# One exchange, and the scenarios with threads. The other scenarios have one thread, whose system calls
# are the same without cgo.
NOCGO_PACKAGES := ./fabric ./fabric/net ./fabric/ofi ./fabric/udp
NOCGO_SCENARIOS := Ready|TestConformance/./^(rdm_exchange|ubertest|multi_domain_threads)$$

# Compiling for a system takes some minutes with an empty cache, and this some seconds.
.PHONY: systems
systems: deps-go ## Check types and vet for Linux, macOS, FreeBSD, Windows on amd64, arm64, 386
	$(GO) run ./test/systems

# In a second, guided fuzzing finds few new branches, and compiling for it takes minutes. So it is not
# guided here. Go's cache of test results does not see the page that test/kube reads, hence -count=1.
.PHONY: smoke
smoke: ## Run every benchmark once and every fuzz target briefly, so that none rots
	packages=$$($(GO) list -f '{{.Dir}} {{.ImportPath}}' $(PACKAGES) | while read -r dir package; do \
	  if grep -qs '^func Benchmark' "$$dir"/*_test.go; then echo "$$package"; fi; done); \
	if [ -n "$$packages" ]; then $(GO) test -vet=off -run='^$$' -bench=. -benchtime=1x $$packages; fi
	GO=$(GO) GUIDED=no tools/fuzz.sh 1s $(PACKAGES)
	cd test/calls && $(GO) test ./...
	cd test/streams && $(GO) test ./...
	cd test/kube && $(GO) test -count=1 ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	GO=$(GO) tools/fuzz.sh $(FUZZTIME) $(PACKAGES)

.PHONY: swarm
swarm: deps-go ## Simulate SEEDS (1000) clusters under faults, from seed FIRST (1) on
	$(GO) run ./test/sim/cmd/swarm --seeds $(SEEDS) --first $(FIRST) $(SWARM_FLAGS)

.PHONY: replay
replay: deps-go ## Trace the simulated run SEED, also as a pcapng file
	@test -n "$(SEED)" || { echo "make: say which: make replay SEED=42" >&2; exit 1; }
	@mkdir -p $(REPLAY_DIR)
	$(GO) run ./test/sim/cmd/swarm --replay $(SEED) --pcap $(REPLAY_DIR)/$(SEED).pcapng $(SWARM_FLAGS)

.PHONY: trace-compare
trace-compare: deps-go ## Run TRACE_SEEDS (256) of the swarm here and at commit BASE: the same packets?
	@test -n "$(BASE)" || { echo "make: say which: make trace-compare BASE=HEAD~1" >&2; exit 1; }
	$(GO) run ./test/sim/cmd/tracecompare --base $(BASE) --seeds $(TRACE_SEEDS) --first $(FIRST)

.PHONY: mutate
mutate: deps-go ## Prove that deliberate faults in the sources are caught
	$(GO) run ./test/sim/mutate $(MUTATE_FLAGS)

.PHONY: mechanisms
mechanisms: deps-go ## Measure what each special mechanism brings; update the docs
	$(GO) run ./test/mechanisms --update-docs docs/mechanisms.md $(MECHANISMS_FLAGS)

.PHONY: shm-long
shm-long: deps-go ## Kill 1000 peers of fabric/shm, and have vandals write over its rings for a minute
	$(GO) test ./fabric/shm -run 'TestKilledPeer|TestVandal' -count 1 -timeout 20m -v -args $(SHM_FLAGS)

.PHONY: hostile
hostile: deps-go ## Honest programs beside one bad peer of each kind, in turns with and without it
	$(GO) test ./test/hostile -count 1 -timeout 30m -v -args -hostile.rounds 5 -hostile.length 1 $(HOSTILE_FLAGS)
	$(GO) run ./test/hostile/cmd/hostile -time $(or $(HOSTILE_TIME),10m)

.PHONY: matrix
matrix: deps-go ## Measure the recovery profiles on simulated paths; update the docs
	$(GO) run ./test/sim/cmd/matrix --out $(BIN)/matrix --update-docs docs/recovery.md $(MATRIX_FLAGS)

.PHONY: fmt
fmt: ## Format the sources
	$(GOLANGCI) fmt ./...

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)
