// A second implementation of the documented format: the transactions of the specification, word for
// word, through Google's own client. It shares nothing with the package but the documents.

import { createHash, randomBytes } from "node:crypto";

const TOLERANCE_MS = 1000;
const isLive = (expiresAtMs) => expiresAtMs > Date.now() - TOLERANCE_MS;

function documentId(key) {
  const plain = !key.includes("/") && key !== "." && key !== ".." && !/^__.*__$/s.test(key);
  if (plain && Buffer.byteLength(key) <= 1500) return key;
  return createHash("sha256").update(key).digest().subarray(0, 16).toString("base64url");
}

/** @param {import("@google-cloud/firestore").Firestore} db */
export function createSecond(
  db,
  { collection = "locks", fenceCollection = "fence_counters" } = {},
) {
  const locks = db.collection(collection);
  const counters = db.collection(fenceCollection);
  const byId = (lockId) => locks.where("lockId", "==", lockId).limit(1);

  const owned = async (trx, lockId) => {
    const { docs } = await trx.get(byId(lockId));
    const data = docs[0]?.data();
    return data?.lockId === lockId && isLive(data.expiresAtMs) ? docs[0] : undefined;
  };

  return {
    acquire: ({ key, ttlMs }) =>
      db.runTransaction(async (trx) => {
        const lockDoc = locks.doc(documentId(key));
        const counterDoc = counters.doc(documentId(`fence:${documentId(key)}`));
        const current = await trx.get(lockDoc);
        const counter = await trx.get(counterDoc);
        const nowMs = Date.now();
        if (current.exists && isLive(current.data().expiresAtMs)) {
          return { ok: false, reason: "locked" };
        }
        const next = BigInt(counter.data()?.fence || "0") + 1n;
        const fence = String(next).padStart(15, "0");
        const lockId = randomBytes(16).toString("base64url");
        const expiresAtMs = nowMs + ttlMs;
        trx.set(counterDoc, { fence, keyDebug: key });
        trx.set(lockDoc, { lockId, expiresAtMs, acquiredAtMs: nowMs, key, fence });
        return { ok: true, lockId, expiresAtMs, fence };
      }),

    release: ({ lockId }) =>
      db.runTransaction(async (trx) => {
        const doc = await owned(trx, lockId);
        if (doc) trx.delete(doc.ref);
        return { ok: doc !== undefined };
      }),

    extend: ({ lockId, ttlMs }) =>
      db.runTransaction(async (trx) => {
        const doc = await owned(trx, lockId);
        const expiresAtMs = Date.now() + ttlMs;
        if (doc) trx.update(doc.ref, { expiresAtMs });
        return doc ? { ok: true, expiresAtMs } : { ok: false };
      }),

    async isLocked({ key }) {
      const doc = await locks.doc(documentId(key)).get();
      return doc.exists && isLive(doc.data().expiresAtMs);
    },

    async lookup({ key }) {
      const doc = await locks.doc(documentId(key)).get();
      return doc.data() ?? null;
    },
  };
}
