// Locks in an HTTP server, with Express 5. If the lock is busy, the first route answers 409 at once.
// The second waits for its turn and answers 503 after two seconds.
//
//   SYNCGUARD_URL=redis://cache.internal:6379 node examples/express.mjs 3000
//   curl -X POST localhost:3000/reports/daily & curl -X POST localhost:3000/reports/daily
//   curl -X POST localhost:3000/accounts/7/pay & curl -X POST localhost:3000/accounts/7/pay
//
// Without SYNCGUARD_URL the locks protect the processes of this host only.

import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import { LockError, lock, tryLock } from "syncguard";

const [port = "3000"] = process.argv.slice(2);
// The lock stayed busy, or its store is down.
const RETRY_LATER = ["AcquisitionTimeout", "ServiceUnavailable", "NetworkTimeout"];
const app = express();

/** Returns a signal that aborts when the client disconnects, so that no request waits or works for it. */
function signalOf(response) {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  return gone.signal;
}

/** Stands in for the real work. `?ms=` sets how long it takes. */
const work = (request, signal) => sleep(Number(request.query.ms ?? 1_000), undefined, { signal });

app.post("/reports/:name", async (request, response) => {
  const done = await tryLock(({ signal }) => work(request, signal), {
    key: `report:${request.params.name}`,
    autoExtend: true,
    signal: signalOf(response),
  });
  if (done.ok) response.json({ written: true });
  else response.status(409).json({ error: "This report is being written." });
});

app.post("/accounts/:id/pay", async (request, response) => {
  const fence = await lock(
    async ({ fence, signal }) => {
      await work(request, signal);
      return fence;
    },
    {
      key: `account:${request.params.id}`,
      autoExtend: true,
      signal: signalOf(response),
      acquisition: { timeoutMs: 2_000 },
    },
  );
  response.json({ paid: true, fence });
});

// Express recognises an error handler by its four parameters.
app.use((error, request, response, next) => {
  if (response.destroyed) return; // the client has disconnected
  if (response.headersSent) return next(error);
  const isTemporary = error instanceof LockError && RETRY_LATER.includes(error.code);
  if (error.code !== "AcquisitionTimeout") console.error(error.message);
  if (isTemporary) response.set("Retry-After", "1");
  response
    .status(isTemporary ? 503 : 500)
    .json({ error: isTemporary ? "Busy, try again." : "Failed." });
});

const server = app.listen(Number(port), (error) => {
  if (error) throw error;
  console.log(`listening on ${server.address().port}`);
});
// Pending requests are answered, and so release their locks, before the process ends.
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => server.close());
