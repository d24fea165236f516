// Code that uses a lock, and that newsletter.test.mjs tests. The backend is a parameter, so a test can
// pass one that needs no server.

import { tryLock } from "syncguard";

/**
 * Sends an issue to all its readers. If several hosts try, only one of them sends it.
 * @returns {Promise<"sent" | "skipped">}
 */
export async function sendNewsletter(backend, { number, readers }, deliver) {
  const { ok } = await tryLock(
    backend,
    async ({ signal }) => {
      for (const reader of readers) {
        signal.throwIfAborted(); // the lock was lost: another host may have begun
        await deliver(reader);
      }
    },
    { key: `newsletter:${number}`, ttlMs: 30_000, autoExtend: true, minHoldMs: 60_000 },
  );
  return ok ? "sent" : "skipped";
}
