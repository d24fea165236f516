import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { startPostgres } from "../../scripts/servers.mjs";
import { serverDeath } from "../contracts/server-death.js";

serverDeath({
  async start() {
    const server = await startPostgres();
    await setupSchema(server.url);
    return server;
  },
  open: (server, options) => createPostgresBackend(server.url, options),
  place: (server) => `127.0.0.1:${server.port}`,
});
