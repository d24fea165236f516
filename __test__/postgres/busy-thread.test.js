// A busy JavaScript thread, connections that the server closes, and the end of a program or worker: over
// plain connections, TLS and a Unix socket.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startPostgres } from "../../scripts/servers.mjs";
import { lock } from "../fixtures/api.js";
import { busyThread } from "../fixtures/busy-thread.js";
import { JS, run } from "../fixtures/node.js";
import { block, until } from "../fixtures/wait.js";
import { open, tables } from "./open.js";

const ttlMs = 30_000;
let plain, secure, names;
beforeAll(async () => {
  [plain, secure] = await Promise.all([
    startPostgres(),
    startPostgres({ tls: true, password: "secret" }),
  ]);
});
afterAll(() => Promise.all([plain.stop(), secure.stop()]));
beforeEach(() => void (names = tables()));

const WAYS = {
  plain: () => `${plain.url}?`,
  TLS: () => `${secure.url.replace("require", "verify-full")}&sslrootcert=${secure.tls.files.ca}`,
  "a Unix socket": () => {
    const { socketDirectory, port, user, database } = plain;
    return `postgres://${user}@/${database}?host=${encodeURIComponent(socketDirectory)}&port=${port}`;
  },
};

const connections = async (server, name, ssl) =>
  Number(
    await server.psql(
      `SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
       WHERE application_name = '${name}' AND ssl = ${ssl}`,
    ),
  );

describe.each(Object.keys(WAYS))("%s", (way) => {
  const ssl = way === "TLS";
  const server = () => (ssl ? secure : plain);
  const haveConnections = (count) =>
    until(async () => (await connections(server(), names.tableName, ssl)) === count, "connections");
  let backend, works;

  beforeEach(async () => {
    const url = `${WAYS[way]()}&application_name=${names.tableName}`;
    backend = await open({ url, ...names, operationTimeoutMs: 1_000 });
    works = async (key = "works") => {
      const held = await backend.acquire({ key, ttlMs });
      expect(held.ok).toBe(true);
      expect(await held.release()).toEqual({ ok: true });
      return Number(held.fence);
    };
    await works();
    await works();
    await haveConnections(1);
    for (let round = 3; round < 100; round++) expect(await works()).toBe(round);
    return () => backend.close();
  });

  busyThread(() => backend);

  test("heartbeats continue while the thread is busy", async () => {
    const lost = await lock(
      backend,
      ({ signal }) => {
        block(2500);
        return signal.aborted;
      },
      { key: "beating", ttlMs: 600, autoExtend: true },
    );
    expect(lost).toBe(false);
  });

  test("connections that the server closes are replaced", async () => {
    await server().psql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '${names.tableName}'`,
    );
    await haveConnections(0);
    await backend.isLocked({ key: "k" }).catch(() => {});
    for (let round = 0; round < 20; round++) await works("again");
    await haveConnections(1);
  });
});

test("an open backend does not keep a program alive, nor a worker that ends during a request", async () => {
  const { code, stdout, stderr } = await run(`
    import { once } from "node:events";
    import { Worker } from "node:worker_threads";
    const load = (more) => \`
      const { createPostgresBackend } = await import("${JS}postgres.js");
      const backend = createPostgresBackend("${plain.url}", ${JSON.stringify(names)});
      do {
        for (let round = 0; round < 50; round++) {
          const held = await backend.acquire({ key: "k", ttlMs: 30000 });
          if (held.ok) await held.release();
        }
      } while (\${more});
    \`;
    const { setupSchema } = await import("${JS}postgres.js");
    await setupSchema("${plain.url}", ${JSON.stringify(names)});
    for (let i = 0; i < 3; i++) {
      const worker = new Worker(new URL("data:text/javascript," + encodeURIComponent(load(true))));
      worker.on("error", (error) => console.log(error));
      await new Promise((resolve) => setTimeout(resolve, 500));
      await worker.terminate();
    }
    await import("data:text/javascript," + encodeURIComponent(load(false)));
    console.log("done");
  `);
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "done\n", stderr: "" });
});
