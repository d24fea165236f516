#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER for the fuzz targets: tells the compiler what cargo-fuzz does, but for our
# own crates only, so that dependencies need not be built once more.
case "$*" in
  *"--crate-name build_script_build "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Cstrip=debuginfo \
  -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
