#!/usr/bin/env bash
# Builds the wheel and the Rust tests side by side, and runs the lints: each of both builds leaves a processor idle
# for minutes. Their profiles have folders of their own, so neither waits for the other's lock.
set -euo pipefail
cargo test --workspace --no-run --quiet &
tests=$!
# A job that a script starts in the background ignores Ctrl-C.
trap 'kill "$tests" 2> /dev/null || true' EXIT
make --no-print-directory wheel lint
wait "$tests"
