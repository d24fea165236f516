// Locks in an HTTP server, with Fastify 5. If the lock is busy, the first route answers 409 at once.
// The second waits for its turn and answers 503 after two seconds.
//
//   SYNCGUARD_URL=redis://cache.internal:6379 node examples/fastify.mjs 3000
//   curl -X POST localhost:3000/reports/daily & curl -X POST localhost:3000/reports/daily
//   curl -X POST localhost:3000/accounts/7/pay & curl -X POST localhost:3000/accounts/7/pay
//
// Without SYNCGUARD_URL the locks protect the processes of this host only.

import { setTimeout as sleep } from "node:timers/promises";
import Fastify from "fastify";
import { createBackend, LockError, lock, tryLock } from "syncguard";

const [port = "3000"] = process.argv.slice(2);
// The lock stayed busy, or its store is down.
const RETRY_LATER = ["AcquisitionTimeout", "ServiceUnavailable", "NetworkTimeout"];
const app = Fastify();
const backend = createBackend();
let isClosing = false;
// A client that keeps its connection open would delay the end by the server's keepAliveTimeout.
app.addHook("onSend", async (request, reply) => {
  if (isClosing) reply.header("connection", "close");
});

/** Returns a signal that aborts when the client disconnects, so that no request waits or works for it. */
function signalOf(reply) {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  return gone.signal;
}

/** Stands in for the real work. `?ms=` sets how long it takes. */
const work = (request, signal) => sleep(Number(request.query.ms ?? 1_000), undefined, { signal });

app.post("/reports/:name", async (request, reply) => {
  const done = await tryLock(backend, ({ signal }) => work(request, signal), {
    key: `report:${request.params.name}`,
    signal: signalOf(reply),
  });
  if (!done.ok) return reply.code(409).send({ error: "This report is being written." });
  return { written: true };
});

app.post("/accounts/:id/pay", async (request, reply) => {
  const pay = async ({ fence, signal }) => {
    await work(request, signal);
    return { paid: true, fence };
  };
  return lock(backend, pay, {
    key: `account:${request.params.id}`,
    signal: signalOf(reply),
    acquisition: { timeoutMs: 2_000 },
  });
});

app.setErrorHandler((error, request, reply) => {
  if (reply.raw.destroyed) return reply.hijack(); // the client has disconnected
  const isTemporary = error instanceof LockError && RETRY_LATER.includes(error.code);
  if (error.code !== "AcquisitionTimeout") console.error(error.message);
  if (isTemporary) reply.header("retry-after", "1");
  return reply
    .code(isTemporary ? 503 : 500)
    .send({ error: isTemporary ? "Busy, try again." : "Failed." });
});

await app.listen({ port: Number(port) });
console.log(`listening on ${app.server.address().port}`);
// Pending requests are answered, and so release their locks, before the process ends.
for (const name of ["SIGINT", "SIGTERM"]) {
  process.once(name, () => {
    isClosing = true;
    app.close().then(() => backend.close());
  });
}
