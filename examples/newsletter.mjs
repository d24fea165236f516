// Code that uses a lock, as newsletter.test.mjs tests it: the backend is a parameter, so that a test
// can pass one without a server.

import { tryLock } from "syncguard";

/**
 * Sends an issue to all its readers, on one of the hosts that try.
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
