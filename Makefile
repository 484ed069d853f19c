# Every target does its own set-up: on a fresh machine `make demo` and `make test` need only make, a Rust toolchain and
# (for the tests) permission to install distribution packages.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

CARGO ?= cargo
PREFIX ?= /usr/local
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STAGE := $(TARGET)/stage
DEMO := $(TARGET)/demo
SIM := $(TARGET)/sim

# The preloaded libraries have no std: they are never compiled in one go with crates whose features bring it in.
PRELOADED := -p memscope-preload -p memscope-preload-host -p memscope-attach
NOT_PRELOADED := --exclude memscope-preload --exclude memscope-preload-host --exclude memscope-attach

.PHONY: build demo test test-python test-python-newest test-frameworks test-programs test-debian11 test-aarch64 test-aarch64-pages test-aarch64-torch sim bench install wheel wheel-aarch64 fuzz check clean packages-build packages-test

build: packages-build ## Build the command and the recording libraries into target/stage
	$(CARGO) build --release --locked -p memscope-cli
	$(CARGO) build --profile preload --locked $(PRELOADED)
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
	scripts/wheel "$(STAGE)"

wheel-aarch64: ## Build the Python package for aarch64 on another processor, into target/aarch64/dist/
	scripts/wheel-aarch64 "$(TARGET)"

test: packages-test build sim ## Run every test but those of the other targets
	scripts/check-layers
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace $(NOT_PRELOADED) --all-targets --locked -- -D warnings
	$(CARGO) clippy $(PRELOADED) --locked -- -D warnings
	MSMEMSCOPE_STAGE="$(STAGE)" $(CARGO) test --workspace $(NOT_PRELOADED) --locked --no-fail-fast
	scripts/check-preload "$(STAGE)"
	scripts/check-locks "$(STAGE)"
	scripts/check-demo "$(STAGE)"
	$(MAKE) --no-print-directory test-python
	python3 tests/frameworks/run.py quick --stage "$(STAGE)" --sim "$(SIM)"

test-python: packages-test wheel ## Check the Python package and test it in fresh environments
	$$(scripts/python-tools)/mypy --no-error-summary
	python3 python/tests/run.py dist/*.whl

test-python-newest: wheel ## Test the Python package with the newest CPython and C library that Debian has; needs root
	python3 tests/newest/run.py dist/*.whl

test-frameworks: packages-test wheel sim ## Run the tests with MindSpore and with an older torch_npu
	python3 tests/frameworks/run.py further --stage "$(STAGE)" --sim "$(SIM)"

test-programs: packages-test build ## Run everyday programs bare and recorded, and compare
	python3 tests/everyday/run.py --stage "$(STAGE)"

test-debian11: ## Run the core of the tests on Debian 11, the C library of many an Ascend host; needs root
	python3 tests/debian11/run.py

test-aarch64: build ## Run the recording libraries built for aarch64 under emulation
	python3 tests/aarch64/run.py --stage "$(STAGE)"

test-aarch64-pages: wheel-aarch64 ## Run the command for aarch64 on a kernel with pages of 16 KiB, in an emulated machine; needs root
	python3 tests/aarch64/large_pages.py "$(TARGET)/aarch64/stage"

test-aarch64-torch: wheel-aarch64 ## Test the Python package for aarch64 with CPython and torch under emulation; takes half an hour, needs root
	python3 tests/aarch64/run_torch.py "$(TARGET)"/aarch64/dist/*.whl

sim: packages-build ## Build the simulated CANN into target/sim
	CARGO_TARGET_DIR="$(SIM)" sim/build.sh

bench: wheel sim ## Measure cost against the bare run and against peers
	python3 bench/run.py

fuzz: ## Run each fuzz target for a minute (needs a nightly toolchain and cargo-fuzz)
	mkdir -p fuzz/corpus/object_file "$(DEMO)"
	cc -g -O1 -o "$(DEMO)/leaky" demo/leaky.c
	(printf '\20\20\0\0\0\0\0\0' && cat "$(DEMO)/leaky") > fuzz/corpus/object_file/program
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do $(CARGO) +nightly fuzz run $$target -- -max_total_time=60; done

packages-build:
	@scripts/packages cc:gcc

packages-test:
	@scripts/packages cc:gcc c++:g++ python3:python3 nm:binutils readelf:binutils setpriv:util-linux \
	    unshare:util-linux bindfs:bindfs zsh:zsh /lib/ld-linux.so.2:libc6-i386 \
	    /usr/lib/x86_64-linux-gnu/libjemalloc.so.2:libjemalloc2 \
	    /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4:libtcmalloc-minimal4

clean:
	$(CARGO) clean
