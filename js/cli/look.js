// syncguard ls, show and release: list locks, show one, release one by force.

import { withBackend, withKeys } from "./backend.js";
import { showDuration } from "./duration.js";
import { EXIT } from "./exit.js";
import { draw, print, printable, printJson, table } from "./output.js";
import { describeStore, storeSentence } from "./store.js";

/** @import { FencingCapabilities, LockInfo, LockInfoDebug } from "../../index.js" */
/** @typedef {import("./parse.js").CommandLine} CommandLine */
/** @typedef {LockInfo<FencingCapabilities> | LockInfoDebug<FencingCapabilities>} Info */

const COLUMNS = ["key", "held by", "mode", "slot", "fence", "held for", "expires in", "label"];
/** Columns that are left out unless a lock has this field.
 * @type {Record<string, string>} */
const NEEDED = { mode: "slot", slot: "slot", label: "label" };

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export function ls({ options }) {
  const { json, watch, raw } = options;
  return withBackend(options, async (opened) => {
    const { backend, library } = opened;
    const store = await describeStore(opened);
    const above = `${printable(storeSentence(store))}\n`;
    return draw(watch === true, async () => {
      const locks = [];
      for await (const info of library.listLocks(backend, { raw: raw === true })) {
        if (json) printJson({ ...info, ...store });
        else locks.push(described(info));
      }
      return { text: json ? "" : above + tableOf(locks), exitCode: EXIT.OK };
    });
  });
}

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export function show({ keys, options }) {
  const { json, watch, raw } = options;
  return withBackend(options, (opened) =>
    withKeys(opened, keys, async (key) => {
      const { backend, library } = opened;
      const store = await describeStore(opened);
      return draw(watch === true, async () => {
        const info = await (raw ? library.getByKeyRaw : library.getByKey)(backend, key);
        const exitCode = info === null ? EXIT.FAILED : EXIT.OK;
        if (json) {
          const locked = info === null ? {} : { mode: "exclusive", ...info };
          printJson({ locked: info !== null, keyHash: library.hashKey(key), ...locked, ...store });
          return { text: "", exitCode };
        }
        if (info === null) return { text: `Not locked.\n${sheet({ ...store })}`, exitCode };
        return { text: sheet({ ...described(info), ...store }), exitCode };
      });
    }),
  );
}

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export function release({ keys, options }) {
  return withBackend(options, (opened) =>
    withKeys(opened, keys, async (key) => {
      const { backend, library } = opened;
      // For people: the number may have changed by the time of the release.
      const { holders = 1 } = (await backend.lookup({ key }).catch(() => null)) ?? {};
      const { ok } = await library.forceRelease(backend, { key });
      if (!ok) print("Not locked.\n");
      else print(holders === 1 ? "Released.\n" : `Released. It had ${holders} holders.\n`);
      return ok ? EXIT.OK : EXIT.FAILED;
    }),
  );
}

/**
 * @param {Info} info
 * @returns {Record<string, string | undefined>}
 */
function described(info) {
  const { key = info.keyHash, lockId = info.lockIdHash } =
    /** @type {Partial<typeof info & LockInfoDebug<FencingCapabilities>>} */ (info);
  const { holders = 1 } = info;
  const now = Date.now();
  return {
    key,
    "held by": lockId,
    mode: info.mode ?? "exclusive",
    slot: info.slot?.toString(),
    // A lookup by key shows one of several holders.
    holders: holders > 1 ? `${holders}, of which this one expires last` : undefined,
    fence: info.fence,
    "held for": showDuration(now - info.acquiredAtMs),
    "expires in": showDuration(info.expiresAtMs - now),
    label: info.holderLabel,
  };
}

/** @param {Record<string, string | undefined>[]} locks */
function tableOf(locks) {
  const columns = COLUMNS.filter(
    (name) => !(name in NEEDED) || locks.some((lock) => lock[NEEDED[name]] !== undefined),
  );
  const rows = locks.map((lock) => columns.map((name) => lock[name] ?? ""));
  return table(
    columns.map((name) => name.toUpperCase()),
    rows,
  );
}

/** @param {Record<string, string | undefined>} fields */
function sheet(fields) {
  const known = Object.entries(fields).filter((entry) => entry[1] !== undefined);
  const width = Math.max(...known.map(([name]) => name.length));
  return known.map(([name, value = ""]) => `${name.padEnd(width)}  ${printable(value)}\n`).join("");
}
