import { startFirestore } from "../../scripts/servers.mjs";
import { serverDeath } from "../contracts/server-death.js";
import { open } from "./open.js";

serverDeath({
  start: startFirestore,
  open: (server, options) => open({ emulatorHost: server.host, ...options }),
  place: (server) => server.host,
  keepsLocks: false,
});
