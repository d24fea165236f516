import { afterAll, beforeAll } from "vitest";
import { startPgBouncer, startPostgres } from "../../scripts/servers.mjs";
import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

let server, bouncer;
beforeAll(async () => {
  server = await startPostgres({ password: "secret" });
  bouncer = await startPgBouncer(server);
});
afterAll(async () => {
  await bouncer.stop();
  await server.stop();
});

contract("postgres behind PgBouncer in transaction mode", {
  make: (options, namespace) => open({ url: bouncer.url, ...tables(namespace), ...options }),
});
