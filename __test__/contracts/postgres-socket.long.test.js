import { afterAll, beforeAll } from "vitest";
import { startPostgres } from "../../scripts/servers.mjs";
import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

let server, url;
beforeAll(async () => {
  server = await startPostgres();
  const { socketDirectory, port, user, database } = server;
  url = `postgres://${user}@/${database}?host=${encodeURIComponent(socketDirectory)}&port=${port}`;
});
afterAll(() => server.stop());

contract("postgres on a Unix socket", {
  make: (options, namespace) => open({ url, ...tables(namespace), ...options }),
});
