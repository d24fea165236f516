import { afterAll } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { open } from "../redis/open.js";
import { contract } from "./suite.js";

// The user has only the privileges that locks need.
const acl = {
  username: "locker",
  password: "p@ss/wörd:%",
  // The last two privileges are for listLocks().
  rules: "~t_* +eval +evalsha +get +set +del +incr +decr +time +scan +getrange",
};
const server = await startRedis({ tls: "client-certificate", acl });
afterAll(() => server.stop());

const { ca, cert, key } = server.tls;
const target = {
  url: server.url,
  tls: { ca, cert, key },
};

contract("redis with TLS, a client certificate and an ACL user", {
  make: (options, keyPrefix) => open({ target, keyPrefix, ...options }),
  removedAtTtl: true,
});
