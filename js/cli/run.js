// syncguard run: runs a command while the lock is held.

import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import { readSharing } from "../base/sharing.js";
import { withBackend, withKeys } from "./backend.js";
import { describeBusy } from "./busy.js";
import { Command, exitCodeOf } from "./command.js";
import { readDuration, showDuration } from "./duration.js";
import { locksOf } from "./environment.js";
import { EXIT, Ended, wrongUsage } from "./exit.js";
import { printable } from "./output.js";
import { showWait } from "./progress.js";
import { Signals } from "./signals.js";
import { describeStore, storeSentence } from "./store.js";

/** @import { HeldLock, HeldLocks, LockError, LockOptions, SharingOptions } from "../../index.js" */
/** @typedef {import("./backend.js").Opened} Opened */
/** @typedef {import("./parse.js").CommandLine} CommandLine */
/** @typedef {import("./parse.js").Given} Given */
/** @typedef {ReturnType<typeof readOptions>} RunOptions */

const KILL_AFTER_MS = 5000;
/** The longest pause between two attempts of a waiter that gets no notifications. */
const MAX_DELAY_MS = 1000;

/**
 * @param {CommandLine} line
 * @returns {Promise<number>} the exit code
 */
export async function run({ keys, command, options: given }) {
  const options = readOptions(given);
  // Created before the lock is acquired, so that no signal leaves a lock behind.
  const signals = new Signals();
  return withBackend(given, (opened) =>
    withKeys(opened, keys, async () => {
      const started = performance.now();
      const held = await acquire(opened, keys, options, signals);
      if (held === null) return conflict(opened, keys, options);
      const waited = showDuration(performance.now() - started);
      const { backend } = opened.backend.capabilities;
      const locks = locksOf(held, keys);
      for (const { key, fence, slot } of locks) {
        const share = slot === undefined ? "" : `, slot ${slot}`;
        options.tell(
          `locked ${opened.library.hashKey(key)} in ${backend} after ${waited}, fence ${fence}${share}`,
        );
      }
      try {
        return await runHeld(held, locks, command, options, signals);
      } finally {
        await release(held, options);
      }
    }),
  );
}

/** @param {Given} given */
function readOptions(given) {
  const duration = (/** @type {string} */ name) => {
    const text = given[name];
    return text === undefined ? undefined : readDuration(String(text), `--${name}`);
  };
  const exitCode = String(given["conflict-exit-code"] ?? EXIT.BUSY);
  if (!/^\d{1,3}$/.test(exitCode) || Number(exitCode) > 255) {
    throw wrongUsage("--conflict-exit-code needs a number from 0 to 255.");
  }
  const [noWait, wait] = [given["no-wait"], duration("wait")];
  if (noWait && wait !== undefined)
    throw wrongUsage("--wait and --no-wait contradict each other: use one of them.");
  if (given.quiet && given.verbose)
    throw wrongUsage("--quiet and --verbose contradict each other: use one of them.");
  const ttl = duration("ttl");
  if (ttl === 0) throw wrongUsage("--ttl must be longer than 0.");
  const { sharing, limit } = readShares(given);
  const say = (/** @type {string} */ text) => {
    if (!given.quiet) sayOnStderr(text);
  };
  return {
    sharing,
    limit,
    waits: !noWait && wait !== 0,
    waitMs: wait,
    ttlMs: ttl,
    atLeastMs: duration("at-least"),
    atMostMs: duration("at-most"),
    killAfterMs: duration("kill-after") ?? KILL_AFTER_MS,
    conflictExitCode: Number(exitCode),
    showsProgress: !given.quiet && isatty(2),
    isVerbose: given.verbose === true,
    isQuiet: given.quiet === true,
    say,
    tell: given.verbose ? say : () => {},
  };
}

/**
 * Reads with whom the lock is shared: as the library takes it, and the number of holders that this allows.
 * @param {Given} given
 * @returns {{ sharing: SharingOptions, limit: number }}
 */
function readShares({ concurrency, shared }) {
  const number = /^\d+$/.test(String(concurrency)) ? Number(concurrency) : NaN;
  /** @type {SharingOptions} */
  const sharing = {
    ...(concurrency !== undefined && { concurrency: number }),
    ...(shared && { mode: "shared" }),
  };
  try {
    return { sharing, limit: readSharing(sharing.concurrency, sharing.mode) || 1 };
  } catch (error) {
    throw wrongUsage(`--${/** @type {Error} */ (error).message}.`);
  }
}

/** @param {string} text */
function sayOnStderr(text) {
  try {
    // Not through a stream, which could change the mode of the pipe that the command shares with us.
    writeSync(2, `syncguard: ${text}\n`);
  } catch {
    // stderr was closed.
  }
}

/**
 * @param {Opened} opened
 * @param {string[]} keys
 * @param {RunOptions} options
 * @param {Signals} signals
 * @returns {Promise<HeldLock | HeldLocks | null>} `null` if the lock stayed busy
 */
async function acquire(opened, keys, options, signals) {
  const { backend, library } = opened;
  const { sharing, waits, waitMs, ttlMs, atLeastMs, atMostMs, killAfterMs, showsProgress } =
    options;
  /** @type {LockOptions} */
  const config = {
    ...sharing,
    autoExtend: true,
    ...(ttlMs !== undefined && { ttlMs }),
    ...(atLeastMs !== undefined && { minHoldMs: atLeastMs }),
    // We end the command ourselves and in time. This is the fallback if we cannot.
    ...(atMostMs !== undefined && { maxHoldMs: atMostMs + 2 * killAfterMs + 1000 }),
    acquisition: {
      signal: signals.signal,
      maxRetries: Infinity,
      maxDelayMs: MAX_DELAY_MS,
      timeoutMs: waitMs ?? Infinity,
    },
  };
  const hideProgress = waits && showsProgress ? showWait(opened, keys) : () => {};
  try {
    if (options.isVerbose) {
      options.tell(printable(storeSentence(await describeStore(opened, signals.signal))));
    }
    const hold = waits ? library.hold : library.tryHold;
    return keys.length === 1
      ? await hold(backend, { ...config, key: keys[0] })
      : await hold(backend, { ...config, keys });
  } catch (error) {
    if (signals.ending !== undefined) throw new Ended(exitCodeOf(signals.ending), "");
    if (isTimeout(error)) return null;
    throw error;
  } finally {
    hideProgress();
  }
}

/**
 * Returns whether the wait ended because another holder kept the lock. False if the store did not answer.
 * @param {any} error
 */
function isTimeout({ code, cause }) {
  return code === "AcquisitionTimeout" && cause === undefined;
}

/**
 * @param {Opened} opened
 * @param {string[]} keys
 * @param {RunOptions} options
 */
async function conflict(opened, keys, { conflictExitCode, isQuiet, limit, say, waits }) {
  if (conflictExitCode === 0 || isQuiet) return conflictExitCode;
  // A wait that has just ended may still be releasing those that it had.
  const isUnsure = waits && keys.length > 1;
  say(isUnsure ? "one of the locks stayed busy" : await describeBusy(opened, keys, limit));
  return conflictExitCode;
}

/**
 * @param {HeldLock | HeldLocks} held
 * @param {import("./environment.js").Lock[]} locks
 * @param {string[]} words
 * @param {RunOptions} options
 * @param {Signals} signals
 * @returns {Promise<number>}
 */
async function runHeld(held, locks, words, { atMostMs, killAfterMs, say }, signals) {
  if (signals.ending !== undefined) return exitCodeOf(signals.ending);
  if (Command.startsApart()) signals.stopWithReceiver();
  const command = await Command.start(words, locks);
  signals.sendTo((signal) => command.pass(signal));
  const { promise: ended, resolve: end } = deferred();
  const timer =
    atMostMs === undefined
      ? undefined
      : setTimeout(() => end("the time of --at-most is over"), atMostMs);
  held.signal.addEventListener("abort", () => end(held.signal.reason.message));
  if (held.signal.aborted) end(held.signal.reason.message);
  try {
    const outcome = await Promise.race([command.ended, ended]);
    if (typeof outcome === "number") return outcome;
    say(`${outcome}; ending the command`);
    return EXIT.LOST;
  } finally {
    clearTimeout(timer);
    // Nothing that the command has started continues without the lock.
    await command.end(killAfterMs);
  }
}

/** @returns {{ promise: Promise<string>, resolve: (why: string) => void }} */
function deferred() {
  let resolve = (/** @type {string} */ _why) => {};
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}

/**
 * @param {HeldLock | HeldLocks} held
 * @param {RunOptions} options
 */
async function release(held, { say, tell }) {
  try {
    await held.release();
    tell("released");
  } catch (error) {
    const { message } = /** @type {LockError} */ (error);
    say(`the lock could not be released: ${message}. It stays held until its TTL expires`);
  }
}
