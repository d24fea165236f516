#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER for `npm run memcheck`: our own crate, which has the unsafe code, with
# AddressSanitizer. That option is not a stable one, hence RUSTC_BOOTSTRAP, and only for this.
case "$*" in
  *"--crate-name build_script_build "*) exec "$@" ;;
  *"--crate-name "*) RUSTC_BOOTSTRAP=1 exec "$@" -Zsanitizer=address ;;
  *) exec "$@" ;;
esac
