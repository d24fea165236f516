// A handler for AWS Lambda. Two things are different there:
//
// - The backend is created outside the handler, so that the invocations of an execution environment
//   share one connection. SyncGuard opens it again if it was closed while the environment was frozen.
// - Lambda freezes the environment between invocations, and nothing renews a lock in a frozen process.
//   So this handler needs no heartbeat: its lease is the time that the invocation has left. Lambda ends
//   the invocation by then, so whoever still works holds the lock. If the process dies, it is free then.
//
//   SYNCGUARD_URL=redis://cache.internal:6379, handler: lambda.handler

import { setTimeout as sleep } from "node:timers/promises";
import { createBackend, tryLock } from "syncguard";

const backend = createBackend(process.env.SYNCGUARD_URL, { connectTimeoutMs: 2_000 });

/** What the invocation needs after the lock has expired: to answer, or to fail. */
const RESERVE_MS = 500;

async function importOrders({ shop, ms = 100 }, { fence, signal }) {
  console.log(`importing ${shop}, fence ${fence}`);
  // Pass the fence with every write: an environment that was frozen here wakes up without its lock.
  await sleep(ms, undefined, { signal });
  return { shop, fence };
}

export async function handler(event, context) {
  const done = await tryLock(backend, (lock) => importOrders(event, lock), {
    key: `import:${event.shop}`,
    ttlMs: Math.max(1, context.getRemainingTimeInMillis() - RESERVE_MS),
    throwIfLost: true,
  });
  // An error makes Lambda invoke it again for a queue or a stream. This is not one: the import runs.
  if (!done.ok) return { statusCode: 409, body: "This import runs already." };
  // The lock is released here: do not return while work continues, because it would be frozen.
  return { statusCode: 200, body: JSON.stringify(done.value) };
}
