// The context of each part of the contract suite: backends to test, and keys that no other test uses.

import { createHash, randomBytes } from "node:crypto";
import { afterAll } from "vitest";
import { TIME_TOLERANCE_MS } from "../fixtures/api.js";

const unique = () => randomBytes(6).toString("hex");

/**
 * @param {object} spec
 * @param {(options: object, namespace: string) => any} spec.make
 *   Returns a new backend (or a promise of one) with these options. `namespace` matches /^t_[0-9a-f]+$/
 *   and stands for a prefix, a table name or a file. Two backends with the same namespace see the same locks,
 *   if the backend can be shared at all. Two with different namespaces never do.
 * @param {boolean} [spec.shared] whether two backends of one namespace see the same locks (default true)
 * @param {boolean} [spec.removedAtTtl] whether the server removes a lock at `ttlMs`, without the tolerance (Redis)
 * @param {boolean} [spec.native] whether the backend is one of this package, not a custom one (default true):
 *   it wakes waiters of this process, its results have isHeld() and signal, its locks can be listed, and
 *   its close waits for held locks
 * @param {boolean} [spec.needsLoop] whether it is reached through JavaScript, so that a heartbeat needs the
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
    /** How long a lock may outlive its ttl. */
    toleranceMs: removedAtTtl ? 0 : TIME_TOLERANCE_MS,
    native,
    needsLoop,
    /** The backend that most tests share. */
    backend: () => (main ??= open()),
    /** Returns another backend on the same namespace. */
    another: (options) => open(options),
    /** Returns another backend on the same namespace, to which only the caller has a reference. */
    forgotten: (options = {}) => make(options, namespace),
    /** Lends backends on the same namespace to tests. They are returned instead of being closed. */
    pool() {
      const idle = [];
      const create = async () => idle.pop() ?? (await open());
      return { create, cleanUp: (backend) => idle.push(backend) };
    },
    /** Returns a backend that does not see the locks of the others. */
    isolated: (options) => open(options, `t_${unique()}`),
    /** Returns a key that no other test uses. */
    key: (label = "key") => `${label}:${unique()}`,
  };
}

/** Returns the error that `promise` rejects with. The test fails if the promise resolves. */
export async function rejection(promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`expected a rejection, got ${JSON.stringify(value)}`);
}

/** Computes what hashKey must return. An expectation must not come from the code under test. */
export const hashOf = (text) =>
  createHash("sha256").update(text.normalize("NFC")).digest("hex").slice(0, 24);
