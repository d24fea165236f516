import { startRedis } from "../../scripts/servers.mjs";
import { serverDeath } from "../contracts/server-death.js";
import { open, prefix } from "./open.js";

const keyPrefix = prefix();

serverDeath({
  // The server writes everything to disk at once, so its death loses nothing.
  start: () => startRedis({ config: { appendonly: "yes", appendfsync: "always" } }),
  open: (server, options) => open({ target: server.url, keyPrefix, ...options }),
  place: (server) => `127.0.0.1:${server.port}`,
});
