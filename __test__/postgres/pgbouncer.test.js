// Behind a pooler that runs each transaction in another session.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPgBouncer, startPostgres } from "../../scripts/servers.mjs";
import { OverlapChecker } from "../fixtures/overlap.js";
import { connect, open, tables } from "./open.js";

const ttlMs = 60_000;
let server;
beforeAll(async () => (server = await startPostgres()));
afterAll(() => server.stop());

describe.each([
  ["that refuses settings", {}],
  ["that ignores settings", { ignore_startup_parameters: "options" }],
])("%s", (_, config) => {
  let bouncer, direct;
  beforeAll(async () => {
    bouncer = await startPgBouncer(server, { poolSize: 3, config });
    direct = connect(bouncer.url, { prepare: false });
  });
  afterAll(async () => {
    await direct.end();
    await bouncer.stop();
  });

  test("many operations on one key and on many keys leave nothing in the sessions", async () => {
    const backend = await open({ url: bouncer.url, ...tables(), poolSize: 8 });
    const overlap = new OverlapChecker();
    const work = async (key) => {
      for (let times = 0; times < 10;) {
        const held = await backend.acquire({ key, ttlMs });
        if (!held.ok) continue;
        const leave = overlap.enter(key, held.fence);
        await held.extend(ttlMs);
        leave();
        expect(await held.release()).toEqual({ ok: true });
        times++;
      }
    };
    const keys = ["hot", "hot", "hot", "hot", "a", "b", "c", "d"];
    await Promise.all(keys.map(work));
    expect(overlap.violations).toEqual([]);
    expect(overlap.sections).toBe(80);

    // All three sessions of the pooler at the same time.
    const look = () => direct`
      SELECT (SELECT count(*)::int FROM pg_prepared_statements) AS prepared,
        current_setting('statement_timeout') AS statement_timeout,
        current_setting('lock_timeout') AS lock_timeout,
        current_setting('synchronous_commit') AS synchronous_commit,
        current_setting('enable_seqscan') AS enable_seqscan,
        pg_sleep(0.05)`;
    for (const [seen] of await Promise.all([look(), look(), look()])) {
      expect(seen).toMatchObject({
        prepared: 0,
        statement_timeout: "0",
        lock_timeout: "0",
        synchronous_commit: "on",
        enable_seqscan: "on",
      });
    }
    await backend.close();
  });

  test("a wait that is too long times out, and the session is free again", async () => {
    const names = tables();
    const backend = await open({ url: bouncer.url, ...names, operationTimeoutMs: 1_000 });
    const blocker = connect(server.url);
    await blocker.begin(async (tx) => {
      await tx`SELECT pg_advisory_xact_lock(1398361667, hashtext('blocked'))`;
      await expect(backend.acquire({ key: "blocked", ttlMs })).rejects.toMatchObject({
        code: "NetworkTimeout",
      });
    });
    expect(await backend.acquire({ key: "blocked", ttlMs })).toMatchObject({ ok: true });
    await Promise.all([backend.close(), blocker.end()]);
  });

  test("a pooler that restarts", async () => {
    const backend = await open({ url: bouncer.url, ...tables() });
    const held = await backend.acquire({ key: "k", ttlMs });
    await bouncer.restart();
    let outcome;
    for (let tries = 0; outcome === undefined && tries < 100; tries++) {
      outcome = await held.extend(ttlMs).catch((error) => {
        expect(error.code).toBe("ServiceUnavailable");
      });
    }
    expect(outcome).toMatchObject({ ok: true });
    await backend.close();
  });
});
