// npm test -- --without-servers: what is left when no server can be had, as on Windows.

const STORES = "{redis,postgres,firestore}";

/** Globs of the JavaScript tests that need a server, or several. */
const NEED_SERVERS = [
  `__test__/${STORES}/**`,
  `__test__/contracts/${STORES}*.test.js`,
  `__test__/contracts/{belief,busy-processes,cleanup,clock,late-answers}.test.js`,
  `__test__/handover/${STORES}.test.js`,
  "__test__/prove/{redis,others,growth}.test.js",
];

/**
 * What they test with is not there on Windows: modes and owners of files, a clock that is set for one
 * program, a process that stands still.
 */
const NEED_UNIX = [
  "__test__/sqlite/{clock,default,stuck}.test.js",
  "__test__/prove/control.test.js",
];

/** The globs that are left out on this system. */
export function leftOut() {
  return process.platform === "win32" ? [...NEED_SERVERS, ...NEED_UNIX] : NEED_SERVERS;
}

/** The same for `cargo test`: parts of the names of tests. */
export const RUST_LEFT_OUT = ["redis::tests::", "postgres::tests::"];
