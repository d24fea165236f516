import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "./ports.mjs";
import { program } from "./programs.mjs";
import { controls, Server, temporaryDirectory } from "./server.mjs";
import { makeCertificates } from "./tls.mjs";

/**
 * Starts a Redis server.
 * - `unixSocket: true`: it listens on a Unix socket only;
 * - `tls: true` or `"client-certificate"` (clients need one): TLS only. `certificates` of
 *   makeCertificates() can be shared with other servers;
 * - `acl: { username, password, rules? }`: only this user may log in;
 * - `config`: further lines of redis.conf, as an object.
 * Data is lost when the process ends unless `config` sets up persistence.
 */
export async function startRedis({ unixSocket, tls, certificates, acl, config = {} } = {}) {
  const directory = temporaryDirectory();
  if (tls) certificates ??= await makeCertificates(directory.path);
  const path = unixSocket ? join(directory.path, "redis.sock") : undefined;
  const port = unixSocket ? undefined : await freePort();
  const settings = {
    bind: "127.0.0.1",
    port: tls || unixSocket ? 0 : port,
    dir: directory.path,
    save: '""',
    ...(unixSocket && { unixsocket: path }),
    ...(tls && {
      "tls-port": port,
      "tls-cert-file": certificates.files.serverCert,
      "tls-key-file": certificates.files.serverKey,
      "tls-ca-cert-file": certificates.files.ca,
      "tls-auth-clients": tls === "client-certificate" ? "yes" : "no",
      "tls-replication": "yes",
    }),
    ...config,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} ${value}`);
  if (acl) {
    lines.push("user default off");
    // The hash allows any character in the password.
    const hash = createHash("sha256").update(acl.password).digest("hex");
    lines.push(`user ${acl.username} on #${hash} ${acl.rules ?? "~* &* +@all"}`);
  }
  const file = join(directory.path, "redis.conf");
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  const server = new Server("redis-server", program("redis-server"), [file], {
    ready: /ready to accept connections/i,
  });
  await server.start();
  return {
    server,
    directory: directory.path,
    host: unixSocket ? undefined : "127.0.0.1",
    port,
    path,
    username: acl?.username,
    password: acl?.password,
    tls: certificates,
    url: redisUrl({ tls, acl, port, path }),
    /** Runs redis-cli on this server and returns its output. */
    async cli(...args) {
      const to = path ? ["-s", path] : ["-p", String(port)];
      if (tls) {
        const { ca, clientCert, clientKey } = certificates.files;
        to.push("--tls", "--cacert", ca, "--cert", clientCert, "--key", clientKey);
      }
      if (acl) to.push("--user", acl.username);
      const { stdout } = await promisify(execFile)(program("redis-cli"), [...to, ...args], {
        encoding: "utf8",
        env: { ...process.env, ...(acl && { REDISCLI_AUTH: acl.password }) },
      });
      return stdout.trimEnd();
    },
    ...controls(server, { directory }),
  };
}

function redisUrl({ tls, acl, port, path }) {
  if (path) return `unix:${path}`;
  const user = acl
    ? `${encodeURIComponent(acl.username)}:${encodeURIComponent(acl.password)}@`
    : "";
  return `${tls ? "rediss" : "redis"}://${user}127.0.0.1:${port}`;
}
