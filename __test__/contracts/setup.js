// What every part of the contract suite gets: backends to test, keys nobody else uses.

import { createHash, randomBytes } from "node:crypto";
import { afterAll } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";

const unique = () => randomBytes(6).toString("hex");

/**
 * @param {object} spec
 * @param {(options: object, namespace: string) => any} spec.make
 *   A new backend (or a promise of one) with these backend options. `namespace` matches /^t_[0-9a-f]+$/
 *   and stands for a prefix, a table name, a file: two backends made with the same one see the same locks,
 *   if the backend can be shared at all; two made with different ones never do.
 * @param {boolean} [spec.shared] two backends of one namespace see the same locks (default true)
 * @param {boolean} [spec.removedAtTtl] the server removes a lock at `ttlMs`, without the tolerance (Redis)
 * @param {boolean} [spec.native] the backend is one of this package, not a user's own (default true):
 *   it wakes waiters of this process, its results tell about the lock, it can be looked around in, and
 *   its close waits for what is held
 * @param {boolean} [spec.needsLoop] it is reached through JavaScript, so that a heartbeat needs the
 *   event loop (default false)
 */
export function setup({
  make,
  shared = true,
  removedAtTtl = false,
  native = true,
  needsLoop = false,
}) {
  const opened = [];
  const namespace = `t_${unique()}`;
  let main;

  const open = async (options = {}, space = namespace) => {
    const backend = await make(options, space);
    opened.push(backend);
    return backend;
  };
  afterAll(() => Promise.all(opened.map((backend) => backend.close())));

  return {
    shared,
    removedAtTtl,
    /** How long a lock lives on after its ttl. */
    toleranceMs: removedAtTtl ? 0 : TIME_TOLERANCE_MS,
    native,
    needsLoop,
    /** The backend that most tests share. */
    backend: () => (main ??= open()),
    /** One more on the same namespace. */
    another: (options) => open(options),
    /** One more on the same namespace, to which nothing refers but the caller. */
    forgotten: (options = {}) => make(options, namespace),
    /** Lends backends on the same namespace to tests, and takes them back in place of closing them. */
    pool() {
      const idle = [];
      const create = async () => idle.pop() ?? (await open());
      return { create, cleanUp: (backend) => idle.push(backend) };
    },
    /** One that sees nothing of the others. */
    isolated: (options) => open(options, `t_${unique()}`),
    /** A key that no other test uses. */
    key: (label = "key") => `${label}:${unique()}`,
  };
}

/** The error that `promise` rejects with; a promise that resolves fails the test. */
export async function rejection(promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`expected a rejection, got ${JSON.stringify(value)}`);
}

/** What hashKey must give, written again: an expectation must not come from the code under test. */
export const hashOf = (text) =>
  createHash("sha256").update(text.normalize("NFC")).digest("hex").slice(0, 24);
