// Idempotency keys in an HTTP server: a client that got no answer repeats its request with the same
// `Idempotency-Key`, and the work is done once. A repetition gets the first answer. If the first request
// is still being processed, it gets 409.
//
//   REDIS_URL=redis://… node examples/idempotency.mjs 3000
//   curl -X POST -H 'Idempotency-Key: 7f3a' 'localhost:3000/payments?amount=12'

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import Redis from "ioredis";
import { tryLock } from "syncguard";
import { createRedisBackend } from "syncguard/redis";

const [port = "3000"] = process.argv.slice(2);
const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const backend = createRedisBackend(redis);
const REMEMBERED_MS = 24 * 60 * 60_000;

/** Stands in for the payment. `?ms=` sets how long it takes. */
async function pay({ amount, ms = "0" }, signal) {
  await sleep(Number(ms), undefined, { signal });
  return { paid: Number(amount), at: new Date().toISOString() };
}

const app = express();
app.post("/payments", async (request, response) => {
  const key = request.get("Idempotency-Key");
  if (!key) return response.status(400).json({ error: "Idempotency-Key is missing." });
  const entry = `payment:${key}`;
  // The same key with another request is a mistake of the client.
  const fingerprint = createHash("sha256").update(request.url).digest("hex");

  const payOnce = async ({ signal, throwIfLost }) => {
    const saved = JSON.parse(await redis.get(entry));
    if (saved !== null) return saved;
    const answer = await pay(request.query, signal);
    // If the lock was lost, another request may have paid: pass the key to your payment provider, too.
    throwIfLost();
    const done = { fingerprint, answer };
    await redis.set(entry, JSON.stringify(done), "PX", REMEMBERED_MS);
    return done;
  };
  // The client may be gone, but what has begun is finished, so that its repetition finds the answer.
  const { ok, value } = await tryLock(backend, payOnce, { key: entry, throwIfLost: true });

  if (!ok) {
    response.set("Retry-After", "1").status(409).json({ error: "It is being processed." });
  } else if (value.fingerprint !== fingerprint) {
    response.status(422).json({ error: "This key belongs to another request." });
  } else {
    response.json(value.answer);
  }
});

// Express recognises an error handler by its four parameters.
app.use((error, request, response, next) => {
  console.error(error.message);
  if (response.headersSent) return next(error);
  response.status(500).json({ error: "Failed, try again with the same key." });
});

const server = app.listen(Number(port), (error) => {
  if (error) throw error;
  console.log(`listening on ${server.address().port}`);
});
for (const name of ["SIGINT", "SIGTERM"]) {
  process.once(name, () => server.close(() => backend.close().then(() => redis.disconnect())));
}
