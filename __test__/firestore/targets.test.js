import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Firestore } from "@google-cloud/firestore";
import { createFirestoreBackend, createLock } from "../../js/firestore.js";
import { createBackend, LockError } from "../fixtures/api.js";
import { collections, google, PROJECT } from "./open.js";

const names = collections();
const emulatorHost = process.env.FIRESTORE_EMULATOR_HOST;
const opened = [];
const keep = (backend) => (opened.push(backend), backend);
afterAll(() => Promise.all(opened.map((backend) => backend.close?.() ?? backend.terminate())));

beforeEach(() => {
  vi.stubEnv("FIRESTORE_EMULATOR_HOST", "");
  vi.stubEnv("GOOGLE_CLOUD_PROJECT", "");
  vi.stubEnv("GCLOUD_PROJECT", "");
});
afterEach(() => vi.unstubAllEnvs());

describe("every kind of target reaches the same database", () => {
  const [, host, port] = /^(.*):(\d+)$/.exec(emulatorHost);
  const environment = () => {
    vi.stubEnv("FIRESTORE_EMULATOR_HOST", emulatorHost);
    vi.stubEnv("GOOGLE_CLOUD_PROJECT", PROJECT);
  };
  const ways = {
    "the environment": () => (environment(), createFirestoreBackend(names)),
    options: () => createFirestoreBackend({ projectId: PROJECT, emulatorHost }, names),
    "everything in one object": () =>
      createFirestoreBackend({ projectId: PROJECT, emulatorHost, ...names }),
    "host and port without TLS": () =>
      createFirestoreBackend({ projectId: PROJECT, host, port: Number(port), ssl: false }, names),
    "a Firestore instance": () => createFirestoreBackend(keep(google(emulatorHost)), names),
    "a Firestore instance of the environment": () => {
      environment();
      return createFirestoreBackend(keep(new Firestore()), names);
    },
    "a URL": () =>
      createBackend(`firestore://${PROJECT}/(default)?emulatorHost=${emulatorHost}`, names),
    "a URL that leaves the rest to the environment": () => {
      environment();
      return createBackend("firestore:", names);
    },
  };
  test.each(Object.entries(ways))("%s", async (way, make) => {
    const backend = keep(make());
    const { lockId } = await backend.acquire({ key: way, ttlMs: 60_000 });
    const found = await google(emulatorHost).collection(names.collection).doc(way).get();
    expect(found.data().lockId).toBe(lockId);
  });

  test("databases are independent", async () => {
    const target = { projectId: PROJECT, databaseId: "other", emulatorHost };
    const db = keep(
      new Firestore({ projectId: PROJECT, databaseId: "other", host, port, ssl: false }),
    );
    const url = `firestore://${PROJECT}/other?emulatorHost=${emulatorHost}`;
    const backends = [
      createFirestoreBackend(target, names),
      createFirestoreBackend(db, names),
      createBackend(url, names),
    ].map(keep);
    await backends[0].acquire({ key: "place", ttlMs: 60_000 });
    for (const backend of backends) expect(await backend.isLocked({ key: "place" })).toBe(true);
    const usual = keep(createFirestoreBackend({ projectId: PROJECT, emulatorHost }, names));
    expect(await usual.isLocked({ key: "place" })).toBe(false);
  });

  test("createLock", async () => {
    const lock = createLock({ projectId: PROJECT, emulatorHost }, names);
    expect(await lock(({ fence }) => fence, { key: "auto" })).toBe("000000000000001");
  });
});

describe("refused when the backend is created", () => {
  const target = { projectId: PROJECT, emulatorHost: "127.0.0.1:1" };
  const refused = {
    "equal collections": () => createFirestoreBackend(target, { collection: "fence_counters" }),
    "an empty collection": () => createFirestoreBackend(target, { collection: "" }),
    "an empty fence collection": () => createFirestoreBackend(target, { fenceCollection: "" }),
    "a path": () => createFirestoreBackend(target, { collection: "a/b" }),
    "a reserved name": () => createFirestoreBackend(target, { fenceCollection: "__a__" }),
    "a collection that is not a string": () => createFirestoreBackend(target, { collection: 7 }),
    "cleanup that is not a boolean": () =>
      createFirestoreBackend(target, { cleanupInIsLocked: "no" }),
    "a timeout of 0": () => createFirestoreBackend(target, { operationTimeoutMs: 0 }),
    "a timeout that is not a number": () =>
      createFirestoreBackend(target, { connectTimeoutMs: NaN }),
    "an emulator without a project": () => createFirestoreBackend({ emulatorHost: "127.0.0.1:1" }),
    "options that cannot be read": () =>
      createFirestoreBackend({
        get projectId() {
          throw new Error("no");
        },
      }),
    "a target of another kind": () => createFirestoreBackend(7),
    "a URL of another form": () => createBackend("firestore://a/b/c"),
    "a URL with an unknown parameter": () => createBackend("firestore://a/b?x=1"),
    "a project that is a path": () => createFirestoreBackend({ projectId: "a/b" }),
    "an auth client that cannot be read": () =>
      createFirestoreBackend(keep(new Firestore({ projectId: "p", authClient: {} }))),
    "a wrong hook": () => createFirestoreBackend(target, { onReleaseError: 1 }),
  };
  test.each(Object.entries(refused))("%s", (_, make) => {
    let error;
    try {
      make();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(LockError);
    expect(error.code).toBe("InvalidArgument");
  });
});

describe("credentials", () => {
  // No server listens there. An attempt that fails to connect to it had usable credentials.
  const nowhere = { host: "127.0.0.1", port: 1 };
  const { privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  const account = {
    type: "service_account",
    project_id: "p",
    private_key_id: "k",
    private_key: privateKey,
    client_email: "a@p.iam.gserviceaccount.com",
  };
  const folder = mkdtempSync(join(tmpdir(), "syncguard-"));
  const file = (name, content) => {
    const path = join(folder, name);
    writeFileSync(path, JSON.stringify(content));
    return path;
  };
  afterAll(() => rmSync(folder, { recursive: true }));

  const thrown = async (target, environment = {}) => {
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const backend = keep(createFirestoreBackend(target, { connectTimeoutMs: 300 }));
    const error = await backend.isLocked({ key: "k" }).catch((caught) => caught);
    expect(`${error.stack} ${error.cause?.stack}`).not.toContain(privateKey.slice(30, 60));
    return error;
  };
  const failure = async (...args) => (await thrown(...args)).code;

  test("a service account's key as an object, in a file, and as the application default", async () => {
    const path = file("account.json", account);
    const reached = "ServiceUnavailable";
    const { client_email, private_key } = account;
    const credentials = { client_email, private_key };
    expect(await failure({ ...nowhere, projectId: "p", credentials: account })).toBe(reached);
    expect(await failure({ ...nowhere, projectId: "p", credentials })).toBe(reached);
    expect(await failure({ ...nowhere, projectId: "p", keyFilename: path })).toBe(reached);
    // The project is taken from the file too.
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: path };
    expect(await failure(nowhere, environment)).toBe(reached);
  });

  test("unusable credentials", async () => {
    const target = { ...nowhere, projectId: "p" };
    const broken = file("broken.json", { type: "service_account", private_key: privateKey });
    const strange = file("strange.json", { type: "strange" });
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: broken };
    expect(await failure(target, environment)).toBe("AuthFailed");
    vi.unstubAllEnvs();
    expect(await failure({ ...target, keyFilename: broken })).toBe("AuthFailed");
    expect(await failure({ ...target, keyFilename: strange })).toBe("InvalidArgument");
    const missing = await thrown({ ...target, keyFilename: join(folder, "none") });
    expect(missing.code).toBe("InvalidArgument");
    for (const part of [join(folder, "none"), "cannot be read", "check the path"]) {
      expect(missing.message).toContain(part);
    }
  });

  test("without credentials and a project, the error says where it looked and what to set", async () => {
    const environment = {
      HOME: folder,
      APPDATA: folder,
      GOOGLE_APPLICATION_CREDENTIALS: undefined,
    };
    const elsewhere = { ...environment, GCE_METADATA_HOST: "syncguard.invalid" };
    const none = await thrown(nowhere, elsewhere);
    expect(none.code).toBe("InvalidArgument");
    const away = await thrown(nowhere, { ...environment, GCE_METADATA_HOST: "127.0.0.1:1" });
    expect(away.code).toBe("ServiceUnavailable");
    for (const [{ message }, ...parts] of [
      [none, "metadata server syncguard.invalid", "host not found"],
      [away, "metadata server 127.0.0.1:1", "connection refused", "Gave up after"],
    ]) {
      for (const part of [...parts, "set projectId or GOOGLE_CLOUD_PROJECT"]) {
        expect(message).toContain(part);
      }
    }
  });
});
