import { expect } from "vitest";
import { withTelemetry } from "../../js/index.js";

/** Returns the error that the promise rejects with. */
export function rejection(promise) {
  return promise.then(
    () => expect.unreachable("it resolved"),
    (error) => error,
  );
}

export const LOCK_ID = "abcdefghijklmnopqrstuv";

/** Creates a backend whose operations a test can replace. By default everything succeeds. */
export function scripted(operations = {}) {
  const calls = [];
  const implementation = {
    acquire: async ({ ttlMs }) => ({
      ok: true,
      lockId: LOCK_ID,
      expiresAtMs: Date.now() + ttlMs,
      fence: "000000000000001",
    }),
    release: async () => ({ ok: true }),
    extend: async ({ ttlMs }) => ({ ok: true, expiresAtMs: Date.now() + ttlMs }),
    isLocked: async () => false,
    lookup: async () => null,
    ...operations,
  };
  const backend = { capabilities: { supportsFencing: true, timeAuthority: "client" }, calls };
  for (const [name, run] of Object.entries(implementation)) {
    backend[name] = (opts) => {
      calls.push([name, opts]);
      return run(opts);
    };
  }
  backend.names = () => calls.map(([name]) => name);
  return backend;
}

/** Decorates the backend. Returns it with the events so far. */
export function observe(backend, options) {
  const events = [];
  const onEvent = (event) => events.push(event);
  return { events, backend: withTelemetry(backend, { onEvent, ...options }) };
}
