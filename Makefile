# Every target does its own set-up: on a fresh machine `make demo` and `make test` need only make, a Rust toolchain and
# (for the tests) permission to install distribution packages.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
# What is worth it uses all processors by itself, and two parts must not build the same.
.NOTPARALLEL:

CARGO ?= cargo
PREFIX ?= /usr/local
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STAGE := $(TARGET)/stage
DEMO := $(TARGET)/demo
SIM := $(TARGET)/sim

# The preloaded libraries have no std: they are never compiled in one go with crates whose features bring it in.
PRELOADED := -p memscope-preload -p memscope-preload-host -p memscope-attach
NOT_PRELOADED := --exclude memscope-preload --exclude memscope-preload-host --exclude memscope-attach

# What every run of the tests is compiled with: one selection of crates and features, or cargo compiles for each of them anew.
TESTED := --workspace $(NOT_PRELOADED) --features memscope-recorder/model --locked
NEXTEST_VERSION := 0.9.143

# A part of a run that gets a row of the table at its end (scripts/timed).
TIMED := scripts/timed
# The targets that print such a table; what they run is in the target named after them with -parts.
TABLED := check test test-python test-python-others test-python-newest test-frameworks test-programs test-debian11 test-aarch64

.PHONY: build demo sim bench install wheel wheel-aarch64 fuzz clean packages-build packages-test nextest $(TABLED) \
    $(TABLED:%=%-parts) format lints unit-tests end-to-end preload-checks python-tests frameworks-quick \
    test-long test-aarch64-pages test-aarch64-torch

build: packages-build ## Build the command and the recording libraries into target/stage
	$(TIMED) "build: command" $(CARGO) build --release --locked -p memscope-cli
	$(TIMED) "build: recording libraries" $(CARGO) build --profile preload --locked $(PRELOADED)
	$(MAKE) --no-print-directory install PREFIX=$(STAGE) BUILT=1

install: $(if $(BUILT),,build) ## Install into PREFIX/bin, PREFIX/lib64, PREFIX/libexec and PREFIX/share
	scripts/install-command "$(TARGET)/release/msmemscope" "$(PREFIX)"
	scripts/install-libraries "$(TARGET)/preload" "$(PREFIX)"
	install -d "$(PREFIX)/share/man/man1" "$(PREFIX)/share/bash-completion/completions" \
	    "$(PREFIX)/share/zsh/site-functions" "$(PREFIX)/share/fish/vendor_completions.d"
	"$(PREFIX)/bin/msmemscope" man > "$(PREFIX)/share/man/man1/msmemscope.1"
	"$(PREFIX)/bin/msmemscope" completions bash > "$(PREFIX)/share/bash-completion/completions/msmemscope"
	"$(PREFIX)/bin/msmemscope" completions zsh > "$(PREFIX)/share/zsh/site-functions/_msmemscope"
	"$(PREFIX)/bin/msmemscope" completions fish > "$(PREFIX)/share/fish/vendor_completions.d/msmemscope.fish"

demo: build ## Record a small program with a leak and show where it comes from
	rm -rf "$(DEMO)" && mkdir -p "$(DEMO)"
	cc -g -O1 -o "$(DEMO)/leaky" demo/leaky.c
	"$(STAGE)/bin/msmemscope" --device=cpu --call-stack=c --output="$(DEMO)/output" -- "$(DEMO)/leaky"
	"$(STAGE)/bin/msmemscope" export "$(DEMO)/output" --format db

wheel: build ## Build the Python package, command and recording libraries inside, into dist/
	$(TIMED) "build: wheel" scripts/wheel "$(STAGE)"

wheel-aarch64: ## Build the Python package for aarch64 on another processor, into target/aarch64/dist/
	scripts/wheel-aarch64 "$(TARGET)"

# Four tiers, of which each contains the one before; CONTRIBUTING.md says what is in which and how long it may take.
check: ## Format, lints, layers and unit tests: before each commit
test: ## And real programs, the wheel with one Python and torch_npu on the simulated NPU: before each push
test-long: packages-test nextest wheel sim ## The long ones, for hours; options of tests/long/run.py in LONG, e.g. LONG=--brief
	python3 tests/long/run.py --stage "$(STAGE)" $(LONG)

test-python: ## Test the Python package in a fresh environment
test-python-others: ## Test the Python package with the other Pythons that are at hand
test-python-newest: ## Test the Python package with the newest CPython and C library that Debian has; needs root
test-frameworks: ## Run the tests with MindSpore and with an older torch_npu
test-programs: ## Run everyday programs bare and recorded, and compare
test-debian11: ## Run the core of the tests on Debian 11, the C library of many an Ascend host; needs root
test-aarch64: ## Run the recording libraries built for aarch64 under emulation

$(TABLED):
	+@$(TIMED) --table "make $@" $(MAKE) --no-print-directory $@-parts

check-parts: format lints unit-tests
test-parts: check-parts end-to-end preload-checks test-python-parts frameworks-quick
test-python-parts: python-tests

format:
	$(TIMED) "format" $(CARGO) fmt --all --check
	$(TIMED) "layers" scripts/check-layers

lints: packages-test
	$(TIMED) "lints" $(CARGO) clippy $(TESTED) --all-targets -- -D warnings
	$(TIMED) "lints: recording libraries" $(CARGO) clippy $(PRELOADED) --locked -- -D warnings
	$(TIMED) "lints: Python" bash -euc '$$(scripts/python-tools)/mypy --no-error-summary'

# With the model of lanes, a feature of the recorder. A test that talks to the simulated driver needs `sim`.
unit-tests: packages-test nextest sim
	$(TIMED) "tests: build" $(CARGO) nextest run $(TESTED) --no-run
	$(TIMED) "unit tests" scripts/nextest $(TESTED) -E 'not package(memscope-tests)'
	$(TIMED) "examples in documentation" $(CARGO) test --quiet --doc $(TESTED)

end-to-end: packages-test nextest build
	$(TIMED) "end to end" env MSMEMSCOPE_STAGE="$(STAGE)" scripts/nextest $(TESTED) -E 'package(memscope-tests)'

preload-checks: packages-test build
	$(TIMED) "check-preload" scripts/check-preload "$(STAGE)"
	$(TIMED) "check-locks" scripts/check-locks "$(STAGE)"
	$(TIMED) "check-demo" scripts/check-demo "$(STAGE)"

python-tests: packages-test wheel
	$(TIMED) "python: tests" python3 python/tests/run.py --with this dist/*.whl

frameworks-quick: packages-test wheel sim
	$(TIMED) "frameworks: quick" python3 tests/frameworks/run.py quick --stage "$(STAGE)" --sim "$(SIM)"

test-python-others-parts: packages-test wheel
	$(TIMED) "python: other interpreters" python3 python/tests/run.py --with others dist/*.whl

test-python-newest-parts: wheel
	$(TIMED) "python: newest" python3 tests/newest/run.py dist/*.whl

test-frameworks-parts: packages-test wheel sim
	$(TIMED) "frameworks: further" python3 tests/frameworks/run.py further --stage "$(STAGE)" --sim "$(SIM)"

test-programs-parts: packages-test build
	$(TIMED) "programs" python3 tests/everyday/run.py --stage "$(STAGE)"

test-debian11-parts:
	$(TIMED) "debian 11" python3 tests/debian11/run.py

test-aarch64-parts: build
	$(TIMED) "aarch64" python3 tests/aarch64/run.py --stage "$(STAGE)"

test-aarch64-pages: wheel-aarch64 ## Run the command for aarch64 on a kernel with pages of 16 KiB, in an emulated machine; needs root
	python3 tests/aarch64/large_pages.py "$(TARGET)/aarch64/stage"

test-aarch64-torch: wheel-aarch64 ## Test the Python package for aarch64 with CPython and torch under emulation; takes half an hour, needs root
	python3 tests/aarch64/run_torch.py "$(TARGET)"/aarch64/dist/*.whl

sim: packages-build ## Build the simulated CANN into target/sim
	$(TIMED) "build: simulated CANN" env CARGO_TARGET_DIR="$(SIM)" sim/build.sh

bench: wheel sim ## Measure cost against the bare run and against peers
	python3 bench/run.py

fuzz: ## Run each fuzz target for a minute (needs a nightly toolchain and cargo-fuzz)
	mkdir -p fuzz/corpus/object_file "$(DEMO)"
	cc -g -O1 -o "$(DEMO)/leaky" demo/leaky.c
	(printf '\20\20\0\0\0\0\0\0' && cat "$(DEMO)/leaky") > fuzz/corpus/object_file/program
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do $(CARGO) +nightly fuzz run $$target -- -max_total_time=60; done

packages-build:
	@scripts/packages cc:gcc

nextest:
	@$(CARGO) nextest --version >/dev/null 2>&1 || \
	    $(TIMED) "install cargo-nextest" $(CARGO) install cargo-nextest --locked --version $(NEXTEST_VERSION) \
	        --no-default-features --features default-no-update

packages-test:
	@scripts/packages cc:gcc c++:g++ python3:python3 nm:binutils readelf:binutils setpriv:util-linux \
	    unshare:util-linux bindfs:bindfs zsh:zsh /lib/ld-linux.so.2:libc6-i386 \
	    /usr/lib/x86_64-linux-gnu/libjemalloc.so.2:libjemalloc2 \
	    /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4:libtcmalloc-minimal4

clean:
	$(CARGO) clean
