import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startPgBouncer, startPostgres } from "../../scripts/servers.mjs";
import { size } from "../fixtures/size.js";
import { until } from "../fixtures/wait.js";
import { connect, tables } from "../postgres/open.js";
import { startProxy } from "../postgres/proxy.js";
import { handover } from "./suite.js";

/** Counts the sessions that listen, or hold the advisory lock of a waiter. */
const WATCHERS = `FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (query ~ 'LISTEN|advisory_lock_shared'
  OR pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'))`;

async function start() {
  const server = await startPostgres();
  const proxy = await startProxy(server.port);
  const watchers = async () => Number(await server.psql(`SELECT count(*) ${WATCHERS}`));
  return {
    server,
    config: { url: server.url.replace(server.port, proxy.port), ...tables() },
    watchers,
    cutWatchers: () => server.psql(`SELECT pg_terminate_backend(pid) ${WATCHERS}`),
    untilWatched: () => until(async () => (await watchers()) > 0, "a session"),
    commands: async () => proxy.take().sent.length,
    restart: () => server.restart(),
    async stop() {
      await proxy.stop();
      await server.stop();
    },
  };
}

/** Counts what a waiter must not leave on a pooler's sessions, which other clients use next. */
async function tracesOn({ server }, bouncer, poolSize) {
  const signs = await server.psql(
    "SELECT mode, pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'",
  );
  const pooled = connect(bouncer.url, { max: poolSize, prepare: false });
  // All sessions of the pooler, as they are asked at once.
  const looks = Array.from(
    { length: poolSize },
    () => pooled`SELECT pg_listening_channels() AS channel, pg_sleep(0.05)`,
  );
  const channels = (await Promise.all(looks)).flat().map(({ channel }) => channel);
  await pooled.end();
  return [signs, ...channels].filter(Boolean);
}

function more(t) {
  test.each([1, 3, 20])(
    "behind PgBouncer with %i sessions it is done by polling, without a trace in them",
    async (poolSize) => {
      // Their connections would be counted too.
      await t.killProcesses();
      const bouncer = await startPgBouncer(t.store.server, { poolSize });
      const { url: _, ...names } = t.store.config;
      const pooled = { config: { url: bouncer.url, ...names }, env: { SYNCGUARD_DEBUG: "true" } };
      const waiters = [await t.process(pooled), await t.process(pooled)];
      const key = t.key();
      const held = await t.backend.acquire({ key, ttlMs: 60_000 });
      // The looks below take as long as they take.
      const acquisition = { timeoutMs: 60_000, maxRetries: 1_000, maxDelayMs: 200 };
      const waiting = waiters.map((waiter) => waiter.wait({ key, acquisition }));
      try {
        for (let look = 0; look < 10; look++) {
          await sleep(50);
          expect(await tracesOn(t.store, bouncer, poolSize)).toEqual([]);
        }
        await held.release();
        for (const { failed } of await Promise.all(waiting)) expect(failed).toBe(undefined);
        expect(await tracesOn(t.store, bouncer, poolSize)).toEqual([]);
        for (const waiter of waiters) {
          expect(waiter.stderr().match(/by polling/g)).toHaveLength(1);
        }
      } finally {
        await bouncer.stop();
      }
    },
  );
}

handover("PostgreSQL", {
  module: new URL("../postgres/open.js", import.meta.url),
  start,
  toleranceMs: 1_000,
  rounds: size(200, 2_000),
  more,
});
