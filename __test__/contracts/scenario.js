// A scripted scenario with the same transcript on every backend. Times, ids and keys differ between runs and are
// replaced by names. Everything else must be identical.

import { getByIdRaw, hashKey, lock, owns, withTelemetry } from "../fixtures/api.js";
import { untilFree } from "../fixtures/wait.js";

export const EXPECTED = [
  "isLocked: false",
  "lookup: nothing",
  "acquire: id1 fence 000000000000001",
  "acquire again: refused, locked",
  "isLocked: true",
  "lookup by key: fence 000000000000001, ttl 60000, key hashed",
  "lookup by id: fence 000000000000001, ttl 60000, key hashed",
  "owns: true",
  "raw: orders/42 id1",
  "extend: true",
  'release: {"ok":true}',
  'release again: {"ok":false}',
  'extend after release: {"ok":false}',
  "owns: false",
  "acquire for 1 ms: id2 fence 000000000000002",
  "… it expires",
  "lookup by id: nothing",
  "acquire: id3 fence 000000000000003",
  'release of the expired one: {"ok":false}',
  'extend of the expired one: {"ok":false}',
  "isLocked: true",
  "dispose: undefined",
  "isLocked: false",
  'lock(): "inside with 000000000000004"',
  'lock() without telemetry: "000000000000005"',
  "lock() that fails: TypeError undefined",
  "acquire: id4 fence 000000000000007",
  "lock() on a held key: LockError AcquisitionTimeout",
  "empty key: LockError InvalidArgument",
  "long key: LockError InvalidArgument",
  "ttl 0: LockError InvalidArgument",
  "bad id: LockError InvalidArgument",
  "both: LockError InvalidArgument",
  "aborted: LockError Aborted",
  "other key: id5 fence 000000000000001",
  "the end: id6 fence 000000000000008",
  "reasons: locked not-found ok",
];

/** Runs the scenario on a fresh namespace. Returns the transcript, with a line for each event. */
export async function scenario(backend) {
  const lines = [];
  const ids = new Map();
  const name = (lockId) => {
    if (!ids.has(lockId)) ids.set(lockId, `id${ids.size + 1}`);
    return ids.get(lockId);
  };
  const reasons = [];
  const watched = withTelemetry(backend, {
    onEvent: (event) => reasons.push(event.reason ?? "ok"),
  });

  const tell = async (what, promise, show = JSON.stringify) => {
    const line = await promise.then(
      (value) => show(value),
      (error) => `${error.name} ${error.code}`,
    );
    lines.push(`${what}: ${line}`);
  };
  const acquired = (result) =>
    result.ok ? `${name(result.lockId)} fence ${result.fence}` : `refused, ${result.reason}`;
  const found = (info) =>
    info === null
      ? "nothing"
      : `fence ${info.fence}, ttl ${info.expiresAtMs - info.acquiredAtMs}, ` +
        `key ${info.keyHash === hashKey("orders/42") ? "hashed" : "wrong"}`;

  const key = "orders/42";
  await tell("isLocked", watched.isLocked({ key }));
  await tell("lookup", watched.lookup({ key }), found);
  const first = await watched.acquire({ key, ttlMs: 60_000 });
  lines.push(`acquire: ${acquired(first)}`);
  await tell("acquire again", watched.acquire({ key, ttlMs: 60_000 }), acquired);
  await tell("isLocked", watched.isLocked({ key }));
  await tell("lookup by key", watched.lookup({ key }), found);
  await tell("lookup by id", watched.lookup({ lockId: first.lockId }), found);
  await tell("owns", owns(watched, first.lockId));
  await tell(
    "raw",
    getByIdRaw(backend, first.lockId),
    (info) => `${info.key} ${name(info.lockId)}`,
  );
  await tell(
    "extend",
    watched.extend({ lockId: first.lockId, ttlMs: 90_000 }),
    ({ ok }) => `${ok}`,
  );
  await tell("release", watched.release({ lockId: first.lockId }));
  await tell("release again", watched.release({ lockId: first.lockId }));
  await tell("extend after release", watched.extend({ lockId: first.lockId, ttlMs: 1 }));
  await tell("owns", owns(watched, first.lockId));

  const second = await watched.acquire({ key, ttlMs: 1 });
  lines.push(`acquire for 1 ms: ${acquired(second)}`);
  await untilFree(backend, key);
  lines.push("… it expires");
  await tell("lookup by id", watched.lookup({ lockId: second.lockId }), found);
  const third = await watched.acquire({ key, ttlMs: 60_000 });
  lines.push(`acquire: ${acquired(third)}`);
  await tell("release of the expired one", watched.release({ lockId: second.lockId }));
  await tell("extend of the expired one", watched.extend({ lockId: second.lockId, ttlMs: 1 }));
  await tell("isLocked", watched.isLocked({ key }));
  await tell("dispose", third[Symbol.asyncDispose](), String);
  await tell("isLocked", watched.isLocked({ key }));

  await tell(
    "lock()",
    lock(watched, ({ fence }) => `inside with ${fence}`, { key }),
  );
  await tell(
    "lock() without telemetry",
    lock(backend, ({ fence }) => fence, { key }),
  );
  await tell(
    "lock() that fails",
    lock(watched, () => Promise.reject(new TypeError("no")), { key }),
  );
  const blocker = await watched.acquire({ key, ttlMs: 60_000 });
  lines.push(`acquire: ${acquired(blocker)}`);
  const impatient = { key, acquisition: { maxRetries: 0 } };
  await tell(
    "lock() on a held key",
    lock(watched, () => "inside", impatient),
  );
  await blocker.release();

  await tell("empty key", watched.acquire({ key: "", ttlMs: 1000 }));
  await tell("long key", watched.acquire({ key: "k".repeat(513), ttlMs: 1000 }));
  await tell("ttl 0", watched.acquire({ key, ttlMs: 0 }));
  await tell("bad id", watched.release({ lockId: "bad" }));
  await tell("both", watched.lookup({ key, lockId: first.lockId }));
  await tell("aborted", watched.acquire({ key, ttlMs: 1000, signal: AbortSignal.abort() }));
  await tell("other key", watched.acquire({ key: "orders/43", ttlMs: 60_000 }), acquired);
  await tell("the end", watched.acquire({ key, ttlMs: 60_000 }), acquired);

  lines.push(`reasons: ${[...new Set(reasons)].sort().join(" ")}`);
  return lines;
}
