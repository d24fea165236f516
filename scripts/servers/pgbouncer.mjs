import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "./ports.mjs";
import { program } from "./programs.mjs";
import { controls, Server, temporaryDirectory, unprivileged } from "./server.mjs";

/** Starts PgBouncer in transaction mode in front of a server of `startPostgres`. */
export async function startPgBouncer(postgres, { poolSize = 20, config = {} } = {}) {
  const owner = unprivileged();
  const directory = temporaryDirectory(owner.uid ? owner : undefined);
  const write = (name, text) => {
    const file = join(directory.path, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (owner.uid) chownSync(file, owner.uid, owner.gid);
    return file;
  };
  const { user, password = "", database } = postgres;
  const users = write("users.txt", `"${user}" "${password.replaceAll('"', '""')}"\n`);
  const port = await freePort();
  const settings = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: password ? "scram-sha-256" : "trust",
    auth_file: users,
    pool_mode: "transaction",
    default_pool_size: poolSize,
    max_client_conn: 1000,
    ...(postgres.tls && { server_tls_sslmode: "require" }),
    ...config,
  };
  const lines = [
    "[databases]",
    `${database} = host=127.0.0.1 port=${postgres.port} dbname=${database}`,
    "[pgbouncer]",
    ...Object.entries(settings).map(([name, value]) => `${name} = ${value}`),
  ];
  const file = write("pgbouncer.ini", `${lines.join("\n")}\n`);
  const server = new Server("pgbouncer", program("pgbouncer"), [file], {
    ready: /process up/,
    ...owner,
  });
  await server.start();
  const login = password ? `${user}:${encodeURIComponent(password)}` : user;
  return {
    server,
    host: "127.0.0.1",
    port,
    user,
    password: postgres.password,
    database,
    url: `postgres://${login}@127.0.0.1:${port}/${database}`,
    // SIGINT waits for running transactions. SIGTERM ends PgBouncer at once.
    ...controls(server, { directory }),
  };
}
