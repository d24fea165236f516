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

describe("all ways to the same database", () => {
  const [, host, port] = /^(.*):(\d+)$/.exec(emulatorHost);
  const environment = () => {
    vi.stubEnv("FIRESTORE_EMULATOR_HOST", emulatorHost);
    vi.stubEnv("GOOGLE_CLOUD_PROJECT", PROJECT);
  };
  const ways = {
    "the environment": () => (environment(), createFirestoreBackend(undefined, names)),
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

  test("another database is another place", async () => {
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

describe("refused at once", () => {
  const target = { projectId: PROJECT, emulatorHost: "127.0.0.1:1" };
  const refused = {
    "equal collections": () => createFirestoreBackend(target, { collection: "fence_counters" }),
    "an empty collection": () => createFirestoreBackend(target, { collection: "" }),
    "an empty fence collection": () => createFirestoreBackend(target, { fenceCollection: "" }),
    "a path": () => createFirestoreBackend(target, { collection: "a/b" }),
    "a reserved name": () => createFirestoreBackend(target, { fenceCollection: "__a__" }),
    "a collection that is no text": () => createFirestoreBackend(target, { collection: 7 }),
    "cleanup that is no boolean": () => createFirestoreBackend(target, { cleanupInIsLocked: "no" }),
    "a timeout of 0": () => createFirestoreBackend(target, { operationTimeoutMs: 0 }),
    "a timeout that is no number": () => createFirestoreBackend(target, { connectTimeoutMs: NaN }),
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

test("credentials that cannot be used are AuthFailed, and never quoted", async () => {
  const credentials = { client_email: "a@b", private_key: "SECRET" };
  const backend = keep(
    createFirestoreBackend({ projectId: "p", host: "127.0.0.1", port: 1, credentials }),
  );
  const error = await backend.isLocked({ key: "k" }).catch((thrown) => thrown);
  expect(["AuthFailed", "ServiceUnavailable"]).toContain(error.code);
  expect(`${error.stack} ${error.cause?.stack}`).not.toContain("SECRET");
});
