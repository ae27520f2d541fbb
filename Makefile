# nandlab: `make reproduce` runs the shipped studies, `make test` checks everything.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
# Some systems keep programs that a user may run where only root looks for them.
export PATH := $(PATH):/usr/sbin:/sbin:$(HOME)/.cargo/bin
# A machine without Rust gets the pinned toolchain, in this folder alone.
ifeq ($(shell PATH='$(PATH)' command -v cargo),)
TOOLCHAIN := .rust/installed
export RUSTUP_HOME := $(CURDIR)/.rust/rustup
export CARGO_HOME := $(CURDIR)/.rust/cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
endif
COVERED_PERCENT := 85
# Folders of data that are part of the package.
DATA := boards devices parts studies traces workloads

.DEFAULT_GOAL := help
.PHONY: help build docs wheel reproduce reproduce-full test test-long lint format bench growth clean system-packages tear-long \
	crash-found coverage coverage-python coverage-rust mutants assertion-faults

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

$(VENV)/installed: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

.rust/installed: rust-toolchain.toml
	$(PYTHON) scripts/install_rust.py
	touch $@

build: $(VENV)/installed $(TOOLCHAIN) ## Set everything up; leaves the command at .venv/bin/nandlab
	@# Links, which git does not keep: an archive or a copy of a tree may turn them into files.
	@for kind in $(DATA); do ln -sfn ../../../$$kind python/nandlab/data/$$kind; done
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --quiet
	$(BIN)/python -c 'from nandlab.present.drawing import keep_engine; keep_engine()'
	@# Where calls may not write bytecode, each of them would compile the sources again.
	@# Without the folder of data: the wheel takes all that lies there, compiled files too.
	$(BIN)/python -m compileall -q -x nandlab/data python/nandlab

# The build has compiled everything by then: the same library is packed.
wheel: build ## Build dist/nandlab-*.whl, which needs neither Rust nor this tree
	rm -rf dist/*.whl python/nandlab/data/__pycache__
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin build --release --quiet --out dist

reproduce: build ## Run every shipped study in its quick form; writes out/index.html
	$(BIN)/python -m nandlab.reproduce --out $(OUT)

reproduce-full: build ## Run every shipped study whole, those that need a VM included
	$(BIN)/python -m nandlab.reproduce --out $(OUT) --full

system-packages: ## Install the optional Debian packages that some tests use (needs root)
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends $$(cat system-packages.txt)

lint: $(VENV)/installed ## Formatting, lints and types
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check python scripts
	$(BIN)/ruff check python scripts
	$(BIN)/mypy
	$(BIN)/shellcheck -x scripts/*.sh kernel/sfq/*.sh kernel/sfq/tests/debug-kernel.sh kernel/sfq/tests/dkms.sh kernel/sfq/tests/package.sh

format: $(VENV)/installed ## Format all sources
	cargo fmt --all
	$(BIN)/ruff format python scripts
	$(BIN)/ruff check --fix --quiet python scripts

test: $(VENV)/installed $(TOOLCHAIN) ## Run all tests; optional system packages are installed where that is possible
	scripts/build_for_tests.sh
	-@[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory system-packages || echo "optional system packages could not be installed: the tests that need them are counted as skipped below"
	@for program in fsck.vfat mkfs.vfat jffs2dump; do command -v $$program > /dev/null || \
		echo "left out: what the Rust tests compare with $$program, which is not installed (make system-packages)"; done
	NANDLAB_FUZZ_SECONDS=3 PROPTEST_RNG_SEED=1 cargo test --workspace --quiet
	$(BIN)/python -m pytest -q -ra -n 2 --dist loadfile --no-loadscope-reorder --durations=30 python/tests

test-long: test ## Run the longer tests too, which take hours; CONTRIBUTING.md lists them
	NANDLAB_LONG_TESTS=1 cargo test --workspace --quiet
	NANDLAB_ARRIVALS=10000000 cargo test --release -p block --test all queueing_theory -- --nocapture
	NANDLAB_FUZZ_SECONDS=600 cargo test --release -p image --test all damage::fuzz -- --nocapture
	NANDLAB_FUZZ_SECONDS=600 cargo test --release -p trace --test fuzz -- --nocapture
	NANDLAB_FUZZ_SECONDS=600 cargo test --release -p study --test fuzz -- --nocapture
	NANDLAB_CUTS=460 cargo test -p serve --test all no_cut -- --nocapture
	cargo clippy --quiet --manifest-path extras/ublk/Cargo.toml --all-targets -- -D warnings
	cargo test --quiet --manifest-path extras/ublk/Cargo.toml
	@# Every file that leaves something to this target, found by the name of what it asks.
	NANDLAB_LONG_TESTS=1 $(BIN)/python -m pytest -q $$(grep -l '^from long_tests import' python/tests/test_*.py)
	NANDLAB_TEAR_CASES=100 NANDLAB_CALL_SEEDS=200 $(BIN)/python -m pytest -q python/tests/test_kernel_tearing.py \
		python/tests/test_failing_calls.py
	NANDLAB_MOUNT_SEEDS=20 $(BIN)/python -m pytest -q python/tests/test_kernel_mounts.py \
		python/tests/test_kernel_mounts_nilfs2.py python/tests/test_kernel_mounts_ubifs.py
	@# DKMS and the Debian package in a clean Debian, which takes root, the network and some minutes.
	if [ "$$(id -u)" = 0 ]; then kernel/sfq/tests/dkms.sh && kernel/sfq/tests/package.sh; else echo "left out: DKMS and the Debian package in a chroot, which takes root"; fi
	NANDLAB_WHEEL=1 $(BIN)/python -m pytest -q python/tests/test_wheel.py
	NANDLAB_WHOLE_STUDIES=1 $(BIN)/python -m pytest -q python/tests/test_study_verdict.py -k whole
	$(BIN)/python -m nandlab.reproduce --out $(OUT)/full --full

# Hours: what is done stays, and the next call goes on. TEAR='--cases 20 --kernels 6.12' narrows it.
tear-long: build ## Tear 300 chips or disks a file system in each real kernel; writes out/tear-long/results.csv
	$(BIN)/python -m tearing_lab.long_run --out $(OUT)/tear-long $(TEAR)

# Folders that `nandlab crash-search --out` or `nandlab crash --minimise` wrote to.
crash-found: build ## Cut the failing scripts in FOUND again, and compare their digests
	NANDLAB_CRASH_FOUND=$(abspath $(FOUND)) $(BIN)/python -m pytest -q python/tests/test_crash_found.py

coverage: coverage-python coverage-rust ## Lines that the tests reach, at least 85 % of Python and of Rust

# Processes that tests start are measured too. TESTS narrows what is run.
coverage-python: wheel ## Lines of the Python package that its tests reach
	mkdir -p $(OUT)/coverage
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=term --cov-report=html:$(OUT)/coverage/python \
		--cov-fail-under=$(COVERED_PERCENT) $(or $(TESTS),python/tests)

# The build is one of its own, under target/llvm-cov-target, and counting slows the tests down: forty minutes on two
# processors. TESTS narrows it, as in TESTS='-p jffs2'.
coverage-rust: target/tools/bin/cargo-llvm-cov ## Lines of the Rust workspace that its tests reach
	rustup component add llvm-tools
	mkdir -p $(OUT)/coverage
	NANDLAB_FUZZ_SECONDS=5 PROPTEST_RNG_SEED=1 $< llvm-cov $(or $(TESTS),--workspace) --quiet --no-report
	$< llvm-cov report --html --output-dir $(OUT)/coverage/rust
	$< llvm-cov report --summary-only --fail-under-lines $(COVERED_PERCENT)

target/tools/bin/cargo-llvm-cov:
	cargo install --quiet --locked --root target/tools cargo-llvm-cov@0.9.1

# The build is one of its own, under target/mutants, and goes on where it was stopped. CRATES narrows it, as in
# CRATES=crash. New survivors need a reason in docs/mutants.json, or a test.
mutants: target/tools/bin/cargo-mutants ## Plant faults, and see whether tests notice; at most three hours a crate
	$(PYTHON) scripts/mutants.py run $(CRATES)
	$(PYTHON) scripts/mutants.py record
	$(PYTHON) scripts/mutants.py page

# The build is one of its own, under target/assertions. CRATES narrows it, as in CRATES=sched.
assertion-faults: ## Plant faults, and see which assertions fail; at most ten minutes a crate
	$(PYTHON) scripts/assertion_faults.py build $(CRATES)
	$(PYTHON) scripts/assertion_faults.py run $(CRATES)
	$(PYTHON) scripts/assertion_faults.py record
	$(PYTHON) scripts/assertion_faults.py page

target/tools/bin/cargo-mutants:
	cargo install --quiet --locked --root target/tools cargo-mutants@27.1.0

docs: build ## Write docs/aging.md, api.md, config-patterns.md, findings.md, fio.md, open-au.md, slc-cache.md, sqlite-cuts.md, sqlite-file-systems.md, write-amplification-by-file-system.md and the table of power-cuts.md
	$(BIN)/python scripts/aging_page.py
	$(BIN)/python scripts/api_page.py
	$(BIN)/python scripts/config_patterns.py
	$(BIN)/python scripts/findings.py
	$(BIN)/python scripts/fio_page.py
	$(BIN)/python scripts/open_au.py
	$(BIN)/python scripts/power_cut_stacks.py
	$(BIN)/python scripts/slc_cache.py
	$(BIN)/python scripts/write_amplification_labs.py
	$(BIN)/python scripts/sqlite_cuts.py
	$(BIN)/python scripts/sqlite_file_systems.py

# AGAINST='out/bench-before.json' compares.
bench: build ## Measure speed against bare loops, in processor time; writes out/bench.json
	mkdir -p $(OUT)
	cargo run --release --quiet -p bench -- --out $(OUT)/bench.json --nandlab $(BIN)/nandlab \
		$(if $(AGAINST),--against $(AGAINST))

growth: build ## Print how memory and time grow with requests, writes, cells, repeats and power cuts
	cargo run --release --quiet -p bench -- --growth

clean: ## Remove everything that was built
	rm -rf target $(VENV) $(OUT) dist .rust
