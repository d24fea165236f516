// A server that cannot be reached or refuses the login: the code, the reason, the address, and how long we
// tried.

import { once } from "node:events";
import { createServer } from "node:net";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPostgresBackend, setupSchema } from "../../js/postgres.js";
import { freePort, startPostgres } from "../../scripts/servers.mjs";
import { rejection } from "../contracts/setup.js";
import { lock } from "../fixtures/api.js";
import { NOISE_MS } from "../fixtures/wait.js";

const QUICK = { connectTimeoutMs: 500, operationTimeoutMs: 500 };
/** So long that a test that waited for it would fail. */
const PATIENT = { connectTimeoutMs: 60_000, operationTimeoutMs: 60_000 };
const SECRET = "s3cret-w0rd";

/** The error of an operation, and of setting up the tables, which must be the same. */
async function failure(target, limits = QUICK) {
  const backend = createPostgresBackend(target, limits);
  const since = performance.now();
  const error = await rejection(backend.acquire({ key: "k", ttlMs: 1_000 }));
  expect(performance.now() - since).toBeLessThan(QUICK.connectTimeoutMs + NOISE_MS);
  await backend.close();
  const other = await rejection(setupSchema(target, limits));
  const withoutTime = ({ code, message }) => [code, message.replace(/ \d+(\.\d s| ms)/, "")];
  expect(withoutTime(other)).toEqual(withoutTime(error));
  const shown = inspect([error, error.cause], { depth: 9, showHidden: true });
  expect(shown).not.toContain(SECRET);
  return error;
}

const GAVE_UP = /Gave up after \d+(\.\d s| ms) \(connectTimeoutMs\)$/;

async function listener(onConnection) {
  const sockets = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    sockets.push(socket);
    onConnection(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const stop = () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  };
  return { place: `127.0.0.1:${server.address().port}`, stop };
}

describe("no server", () => {
  test("connection refused", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    const error = await failure(`postgres://u:${SECRET}@${place}/d`);
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain(
      `Cannot connect to PostgreSQL at ${place}: connection refused. Is the server running`,
    );
    expect(error.message).toMatch(GAVE_UP);
    expect(error.cause.message).toMatch(/refused/i);
  });

  test("a wait that ends earlier says what it waited for", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    const limits = { connectTimeoutMs: 5_000 };
    const backend = createPostgresBackend(`postgres://u:${SECRET}@${place}/d`, limits);
    const acquisition = { timeoutMs: 400 };
    const error = await rejection(lock(backend, () => {}, { key: "k", acquisition }));
    expect(error.code).toBe("AcquisitionTimeout");
    expect(error.message).toContain(`PostgreSQL at ${place}: connection refused`);
    expect(error.message).toMatch(/Trying for \d/);
    expect(error.cause.code).toBe("ServiceUnavailable");
    await backend.close();
  });

  test("host not found", async () => {
    const error = await failure("postgres://u@postgres.invalid/d");
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain("PostgreSQL at postgres.invalid:5432: host not found");
    expect(error.message).toMatch(GAVE_UP);
  });

  test("no such socket", async () => {
    const error = await failure("postgres://u@/d?host=/nowhere");
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain("/nowhere/.s.PGSQL.5432: there is no such socket file");
  });
});

describe("not a PostgreSQL server", () => {
  test("it accepts connections and says nothing", async () => {
    const { place, stop } = await listener(() => {});
    const error = await failure(`postgres://u@${place}/d`);
    expect(error.code).toBe("NetworkTimeout");
    expect(error.message).toContain(`${place}: it accepts connections but does not answer`);
    expect(error.message).toMatch(GAVE_UP);
    stop();
  });

  test("it hangs up", async () => {
    const { place, stop } = await listener((socket) => socket.end());
    const error = await failure(`postgres://u@${place}/d`);
    expect(error.code).toBe("ServiceUnavailable");
    expect(error.message).toContain(`${place}: it closed the connection during the handshake`);
    stop();
  });

  test("it answers in another protocol: reported at once", async () => {
    // No TLS, and ready for a query before the login.
    const answers = [Buffer.from("N"), Buffer.from([0x5a, 0, 0, 0, 5, 0x49])];
    const { place, stop } = await listener((socket) => {
      let next = 0;
      socket.on("data", () => socket.write(answers[next++] ?? ""));
    });
    const error = await failure(`postgres://u@${place}/d`, PATIENT);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain(`${place}: it does not speak the protocol of PostgreSQL`);
    stop();
  });
});

describe("a server that refuses us: reported at once", () => {
  let plain, tls, mutual;
  beforeAll(async () => {
    [plain, tls, mutual] = await Promise.all([
      startPostgres({ password: "right" }),
      startPostgres({ tls: true }),
      startPostgres({ tls: "client-certificate" }),
    ]);
  });
  afterAll(() => Promise.all([plain, tls, mutual].map((server) => server.stop())));

  const url = ({ port, user, database }, rest = "") =>
    `postgres://${user}:${SECRET}@127.0.0.1:${port}/${database}${rest}`;

  test("it has no TLS, and we require it", async () => {
    const error = await failure(url(plain, "?sslmode=require"), PATIENT);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain(`127.0.0.1:${plain.port}: this is not a TLS port`);
    expect(error.message).toContain("sslmode");
  });

  test("it requires TLS, and we use none", async () => {
    const error = await failure(url(tls, "?sslmode=disable"), PATIENT);
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toContain(`127.0.0.1:${tls.port} refused the login`);
    expect(error.message).toContain("demands TLS: set sslmode=require");
  });

  test("its certificate is not trusted", async () => {
    const error = await failure(url(tls, "?sslmode=verify-full"), PATIENT);
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toContain("its authority is unknown");
    expect(error.message).toContain("sslrootcert");
  });

  test("its certificate is for another name", async () => {
    const rest = `?sslmode=verify-full&sslrootcert=${tls.tls.files.ca}&hostaddr=127.0.0.1`;
    const error = await failure(url(tls, rest).replace("@127.0.0.1", "@other.example"), PATIENT);
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toContain("its certificate is for another name");
  });

  test("it requires a client certificate", async () => {
    const error = await failure(url(mutual, "?sslmode=require"), PATIENT);
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toContain("client certificate");
  });

  test("the password is wrong, or missing", async () => {
    const wrong = await failure(url(plain), PATIENT);
    expect(wrong.code).toBe("AuthFailed");
    expect(wrong.message).toContain(`127.0.0.1:${plain.port} refused the login`);
    expect(wrong.message).toContain("Check the user and the password");
    const missing = await failure(url(plain).replace(`:${SECRET}`, ""), PATIENT);
    expect(missing.code).toBe("AuthFailed");
    expect(missing.message).toContain("asks for a password, and none was given");
  });

  test("the database does not exist", async () => {
    const target = url(plain)
      .replace(SECRET, "right")
      .replace(/\/\w+$/, "/nowhere");
    const error = await failure(target, PATIENT);
    expect(error.code).toBe("InvalidArgument");
    expect(error.message).toContain(`does not exist on PostgreSQL at 127.0.0.1:${plain.port}`);
    expect(error.context.sqlstate).toBe("3D000");
  });
});
