import { afterAll, beforeAll } from "vitest";
import { startPgBouncer, startPostgres } from "../../scripts/servers.mjs";
import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

/** Many backends connect at once, which takes long on a busy machine. */
const PATIENT = { connectTimeoutMs: 20_000, operationTimeoutMs: 20_000 };

let server, bouncer;
beforeAll(async () => {
  // There is no password, because hashing it for every connection is slow in an unoptimised addon.
  server = await startPostgres();
  bouncer = await startPgBouncer(server);
});
afterAll(async () => {
  await bouncer.stop();
  await server.stop();
});

contract("postgres behind PgBouncer in transaction mode", {
  make: (options, namespace) =>
    open({ url: bouncer.url, ...PATIENT, ...tables(namespace), ...options }),
});
