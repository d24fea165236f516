import { startRedis } from "../../scripts/servers.mjs";
import { serverDeath } from "../contracts/server-death.js";
import { open, prefix } from "./open.js";

const keyPrefix = prefix();

serverDeath({
  // Nothing is lost when it dies.
  start: () => startRedis({ config: { appendonly: "yes", appendfsync: "always" } }),
  open: (server, options) => open({ target: server.url, keyPrefix, ...options }),
  place: (server) => `127.0.0.1:${server.port}`,
});
