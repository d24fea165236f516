import { execFile } from "node:child_process";
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "./ports.mjs";
import { program } from "./programs.mjs";
import { controls, Server, temporaryDirectory, unprivileged } from "./server.mjs";
import { makeCertificates } from "./tls.mjs";

const USER = "syncguard";

/**
 * Starts a PostgreSQL server with the superuser `syncguard` and the database
 * `syncguard`. It listens on 127.0.0.1 and on a Unix socket in `socketDirectory`.
 * - `password`: required (SCRAM) over TCP; the Unix socket stays open to all;
 * - `tls: true` or `"client-certificate"`: TCP connections require TLS;
 * - `durable: true`: writes reach the disk (for benchmarks);
 * - `config`: further settings, as an object.
 */
export async function startPostgres({ tls, password, durable = false, config = {} } = {}) {
  const owner = unprivileged();
  // Do not pass on the sanitizer that the tests preload: the server would not start with it.
  const { LD_PRELOAD: _, ...env } = process.env;
  const as = { ...owner, encoding: "utf8", env: { ...env, LC_ALL: "C" } };
  const directory = temporaryDirectory(owner.uid ? owner : undefined);
  const exec = (name, args) =>
    promisify(execFile)(program(name), args, { ...as, cwd: directory.path });
  // Let other users reach the socket, as in an ordinary installation.
  chmodSync(directory.path, 0o755);
  const data = join(directory.path, "data");
  const certificates = tls
    ? await makeCertificates(directory.path, { clientName: USER, owner })
    : undefined;
  const write = (name, text) => {
    const file = join(directory.path, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (owner.uid) chownSync(file, owner.uid, owner.gid);
    return file;
  };
  const initArgs = ["-D", data, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"];
  initArgs.push("--locale=C");
  if (password) initArgs.push("--pwfile", write("password", password));
  await exec("initdb", initArgs);
  const hba = write("pg_hba.conf", hostRules({ tls, password }));
  const port = await freePort();
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: directory.path,
    hba_file: hba,
    max_connections: 300,
    ...(!durable && { fsync: "off", full_page_writes: "off" }),
    ...(tls && {
      ssl: "on",
      ssl_cert_file: certificates.files.serverCert,
      ssl_key_file: certificates.files.serverKey,
      ssl_ca_file: certificates.files.ca,
    }),
    ...config,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const server = new Server("postgres", program("postgres"), ["-D", data, ...args], {
    ready: /database system is ready to accept connections/,
    cwd: directory.path,
    ...owner,
    env: as.env,
  });
  await server.start();
  const psql = async (sql, database = USER) => {
    const target = ["-h", directory.path, "-p", String(port), "-U", USER, "-d", database];
    const { stdout } = await exec("psql", [...target, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]);
    return stdout.trimEnd();
  };
  await psql(`CREATE DATABASE ${USER}`, "postgres");
  const login = password ? `${USER}:${encodeURIComponent(password)}` : USER;
  return {
    server,
    host: "127.0.0.1",
    port,
    user: USER,
    password,
    database: USER,
    socketDirectory: directory.path,
    tls: certificates,
    url: `postgres://${login}@127.0.0.1:${port}/${USER}${tls ? "?sslmode=require" : ""}`,
    /** Runs SQL over the Unix socket as the superuser. Returns one line per row. */
    psql,
    // SIGINT is the "fast" shutdown, which does not wait for clients to disconnect.
    ...controls(server, { directory, signal: "SIGINT" }),
    async restart() {
      await server.stop("SIGINT");
      await startAgain(server);
    },
  };
}

/** Starts the server again, and retries while its killed children still hold the shared memory. */
async function startAgain(server) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await server.start();
    } catch (error) {
      if (attempt === 50 || !/still in use|lock file/.test(error.message)) throw error;
      await sleep(100);
    }
  }
}

function hostRules({ tls, password }) {
  const type = tls ? "hostssl" : "host";
  const method = tls === "client-certificate" ? "cert" : password ? "scram-sha-256" : "trust";
  return `local all all trust\n${type} all all 127.0.0.1/32 ${method}\n`;
}
