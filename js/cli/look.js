// syncguard ls, show and release: list locks, show one, release one by force.

import { withBackend, withKey } from "./backend.js";
import { showDuration } from "./duration.js";
import { EXIT } from "./exit.js";
import { draw, print, printable, printJson, table } from "./output.js";
import { describeStore, storeSentence } from "./store.js";

/** @import { FencingCapabilities, LockInfo, LockInfoDebug } from "../../index.js" */
/** @typedef {import("./parse.js").CommandLine} CommandLine */
/** @typedef {LockInfo<FencingCapabilities> | LockInfoDebug<FencingCapabilities>} Info */

/** The last column is there if a lock has a label. */
const HEAD = ["KEY", "HELD BY", "FENCE", "HELD FOR", "EXPIRES IN", "LABEL"];

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
      const rows = [];
      for await (const info of library.listLocks(backend, { raw: raw === true })) {
        if (json) printJson({ ...info, ...store });
        else rows.push(Object.values(described(info)));
      }
      const head = rows.some((row) => row.length === HEAD.length) ? HEAD : HEAD.slice(0, -1);
      return { text: json ? "" : above + table(head, rows), exitCode: EXIT.OK };
    });
  });
}

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export function show({ key, options }) {
  const { json, watch, raw } = options;
  return withBackend(options, (opened) =>
    withKey(opened, key, async () => {
      const { backend, library } = opened;
      const store = await describeStore(opened);
      return draw(watch === true, async () => {
        const info = await (raw ? library.getByKeyRaw : library.getByKey)(backend, key);
        const exitCode = info === null ? EXIT.FAILED : EXIT.OK;
        if (json) {
          const { keyHash = library.hashKey(key), ...rest } = info ?? {};
          printJson({ locked: info !== null, keyHash, ...rest, ...store });
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
export function release({ key, options }) {
  return withBackend(options, (opened) =>
    withKey(opened, key, async () => {
      const { ok } = await opened.library.forceRelease(opened.backend, { key });
      print(ok ? "Released.\n" : "Not locked.\n");
      return ok ? EXIT.OK : EXIT.FAILED;
    }),
  );
}

/** @param {Info} info */
function described(info) {
  const { key = info.keyHash, lockId = info.lockIdHash } =
    /** @type {Partial<typeof info & LockInfoDebug<FencingCapabilities>>} */ (info);
  const now = Date.now();
  return {
    key,
    "held by": lockId,
    fence: info.fence,
    "held for": showDuration(now - info.acquiredAtMs),
    "expires in": showDuration(info.expiresAtMs - now),
    ...(info.holderLabel !== undefined && { label: info.holderLabel }),
  };
}

/** @param {Record<string, string>} fields */
function sheet(fields) {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}\n`)
    .join("");
}
