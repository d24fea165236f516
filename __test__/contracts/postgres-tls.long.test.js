import { afterAll, beforeAll } from "vitest";
import { startPostgres } from "../../scripts/servers.mjs";
import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

/** Many backends connect at once, which takes long on a busy machine. */
const PATIENT = { connectTimeoutMs: 20_000, operationTimeoutMs: 20_000 };

let server, url;
beforeAll(async () => {
  server = await startPostgres({ tls: true, password: "p@ss:w/o'r\\d? ö%" });
  url = server.url.replace("require", "verify-full") + `&sslrootcert=${server.tls.files.ca}`;
});
afterAll(() => server.stop());

contract("postgres with TLS and a password", {
  make: (options, namespace) => open({ url, ...PATIENT, ...tables(namespace), ...options }),
});
