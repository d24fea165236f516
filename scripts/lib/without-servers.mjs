// npm test -- --without-servers: selects the tests that need no server, for example on Windows.

const STORES = "{redis,postgres,firestore}";

/** Globs of the JavaScript tests that need a server, or several. */
const NEED_SERVERS = [
  `__test__/${STORES}/**`,
  `__test__/contracts/${STORES}*.test.js`,
  `__test__/contracts/{belief,busy-processes,cleanup,clock,late-answers}.test.js`,
  `__test__/{handover,sharing}/${STORES}{.,-}*`,
  "__test__/prove/{redis,others,growth}.long.test.js",
];

/**
 * These tests use what Windows lacks: modes and owners of files, a clock that is set for one program,
 * a process that is stopped.
 */
const NEED_UNIX = [
  "__test__/sqlite/{clock,default,moving,stuck}.test.js",
  "__test__/prove/control.long.test.js",
];

/** Returns the globs that are left out on this system. */
export function leftOut() {
  return process.platform === "win32" ? [...NEED_SERVERS, ...NEED_UNIX] : NEED_SERVERS;
}

/** The Rust tests that are left out on this system, as parts of test names for `cargo test`. */
export const RUST_LEFT_OUT = ["redis::tests::", "postgres::tests::"];
