// syncguard doctor: checks a backend and its setup.

import { advised, openBackend, withBackend } from "./backend.js";
import { EXIT } from "./exit.js";
import { clockOffset, notifiedAfter, roundTrip, takeLock, takeShare } from "./measure.js";
import { print, printable, printJson } from "./output.js";
import { describeStore } from "./store.js";
import { VERSION } from "../native/platforms.js";

/** @import { Finding } from "../../index.js" */
/** @typedef {import("./backend.js").Opened} Opened */
/** @typedef {import("./parse.js").CommandLine} CommandLine */

/** A round trip that takes longer is reported: the server is far away or busy. */
const SLOW_MS = 100;
/** A clock offset that people notice when they compare times. */
const NOTICEABLE_OFFSET_MS = 1000;

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export async function doctor({ options }) {
  const warnings = collectWarnings();
  let isBad = false;
  const report = (/** @type {Finding} */ found) => {
    const { advice } = found;
    const finding = advice === undefined ? found : { ...found, advice: advised(advice, options) };
    if (options.json) printJson(finding);
    else print(line(finding));
    isBad ||= finding.verdict === "error";
  };
  const { platform, arch } = process;
  await withBackend(options, async (opened) => {
    report(ok("syncguard", `${VERSION}, Node.js ${process.version}, ${platform}-${arch}`));
    const { backend, library } = opened;
    const { store, protects } = await describeStore(opened);
    report(ok("backend", `${backend.capabilities.backend} at ${store}`));
    report(scopeFinding(protects, opened.isDefault));
    for (const finding of await library.diagnose(backend)) report(finding);
    try {
      for await (const finding of useBackend(opened, options, warnings)) report(finding);
    } catch (error) {
      if (!(error instanceof library.LockError)) throw error;
      report(bad("lock", "could not be acquired and released", error.message));
    }
  });
  return isBad ? EXIT.FAILED : EXIT.OK;
}

/**
 * Collects the library's warnings, including those that need SYNCGUARD_DEBUG.
 * @returns {string[]}
 */
function collectWarnings() {
  process.env.SYNCGUARD_DEBUG = "true";
  /** @type {string[]} */
  const warnings = [];
  console.warn = (text) => warnings.push(String(text).replace(/^\[SyncGuard\] /, ""));
  return warnings;
}

/**
 * Checks the backend by using it.
 * @param {Opened} opened
 * @param {CommandLine["options"]} options
 * @param {string[]} warnings
 * @returns {AsyncGenerator<Finding>}
 */
async function* useBackend(opened, options, warnings) {
  const { lock, bounds } = await takeLock(opened);
  yield ok("lock", `acquired and released, fence ${lock.fence}`);
  yield await sharingFinding(opened);
  yield roundTripFinding(await roundTrip(opened));
  const { backend, timeAuthority } = opened.backend.capabilities;
  if (backend === "sqlite") yield ok("clock", "the host's own");
  else if (timeAuthority === "server") yield clockFinding(clockOffset(lock, bounds));
  const other = await openBackend(options);
  try {
    yield notificationFinding(await notifiedAfter(opened, other), warnings);
  } finally {
    await other.backend.close({ timeoutMs: 1000 });
  }
}

/**
 * A job that several hosts start would run on each of them, and nothing else would reveal that.
 * @param {string} protects
 * @param {boolean} isDefault
 */
function scopeFinding(protects, isDefault) {
  if (!isDefault) return ok("protects", protects);
  const advice =
    "neither --url nor SYNCGUARD_URL names a store: if several hosts start the same job, name a " +
    "server that all of them reach; otherwise --url sqlite: silences this warning";
  return warning("protects", protects, advice);
}

/**
 * Most programs share no keys, so a store that is only not set up for that is no error.
 * @param {Opened} opened
 */
async function sharingFinding(opened) {
  try {
    return ok("sharing", `a share of a key acquired and released, slot ${await takeShare(opened)}`);
  } catch (error) {
    if (!(error instanceof opened.library.LockError)) throw error;
    return error.code === "InvalidArgument"
      ? warning("sharing", "not set up, but exclusive locks work", error.message)
      : bad("sharing", "a share could not be acquired and released", error.message);
  }
}

/** @param {{ medianMs: number, maxMs: number }} measured */
function roundTripFinding({ medianMs, maxMs }) {
  const value = `${medianMs.toFixed(2)} ms, at most ${maxMs.toFixed(2)} ms`;
  if (medianMs <= SLOW_MS) return ok("round trip", value);
  return warning(
    "round trip",
    value,
    "a lock takes two round trips: use a server that is nearer or less busy",
  );
}

/** @param {{ aheadMs: number, errorMs: number }} offset */
function clockFinding({ aheadMs, errorMs }) {
  const ms = Math.round(aheadMs);
  const direction = ms < 0 ? "behind" : "ahead of";
  const value = `the server's is ${Math.abs(ms)} ms ${direction} ours (±${Math.ceil(errorMs)} ms)`;
  if (Math.abs(ms) - errorMs <= NOTICEABLE_OFFSET_MS) return ok("clock", value);
  return warning("clock", value, "locks use the server's clock, so only displayed times differ");
}

/**
 * @param {number | undefined} afterMs
 * @param {string[]} warnings
 */
function notificationFinding(afterMs, warnings) {
  if (afterMs !== undefined) {
    return ok("notifications", `a waiter has the lock ${afterMs.toFixed(2)} ms after its release`);
  }
  const why =
    warnings.at(-1) ?? "the server sent no notification of the release and gave no reason";
  return warning("notifications", "none: waiters poll", why);
}

/**
 * @param {string} name
 * @param {string} value
 * @returns {Finding}
 */
function ok(name, value) {
  return { name, value, verdict: "ok" };
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} advice
 * @returns {Finding}
 */
function warning(name, value, advice) {
  return { name, value, verdict: "warning", advice };
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} advice
 * @returns {Finding}
 */
function bad(name, value, advice) {
  return { name, value, verdict: "error", advice };
}

/** @param {Finding} finding */
function line({ name, value, verdict, advice }) {
  const text = advice === undefined ? value : `${value} (${advice})`;
  return `${verdict.padEnd(7)}  ${name.padEnd(13)}  ${printable(text)}\n`;
}
