// Backends by URL: the scheme tells the options, and which backend it is.

import { createBackend, createLock } from "syncguard";
import type { FencingCapabilities, ManagedLock, ManagedLockBackend } from "syncguard";

createBackend("redis://h", { keyPrefix: "app" }).capabilities.backend satisfies "redis";
createBackend("rediss://h", { transport: "native" }).capabilities.backend satisfies "redis";
createBackend("postgres://h/d", { tableName: "t" }).capabilities.backend satisfies "postgres";
createBackend("postgresql://h/d", { poolSize: 1 }).capabilities.timeAuthority satisfies "server";
createBackend("firestore://p", { collection: "c" }).capabilities.timeAuthority satisfies "client";
createBackend("sqlite:", { durability: "normal" }).capabilities.backend satisfies "sqlite";
createBackend("memory:", { clock: "javascript" }).capabilities.backend satisfies "memory";
createBackend(`redis://${"host" as string}`).capabilities.backend satisfies "redis";

// @ts-expect-error Redis has no tables
createBackend("redis://h", { tableName: "t" });
// @ts-expect-error PostgreSQL has no prefix
createBackend("postgres://h/d", { keyPrefix: "app" });
// @ts-expect-error there is no such durability
createBackend("sqlite:", { durability: "low" });
// @ts-expect-error a misspelt option
createBackend("memory:", { disposeTimeout: 5 });
// @ts-expect-error not a URL
createBackend(5);
// @ts-expect-error a variable that may not be set
createBackend(process.env["SYNCGUARD_URL"]);

// Without a URL: the default backend.
createBackend() satisfies ManagedLockBackend<FencingCapabilities>;
(await createLock()(({ fence }) => fence, { key: "k" })) satisfies string;

// A URL that is known only at run time: the options of any backend, and nothing else.
const url: string = process.env["SYNCGUARD_URL"] ?? "memory:";
createBackend(url, { keyPrefix: "app" }) satisfies ManagedLockBackend<FencingCapabilities>;
createBackend(new URL(url), { tableName: "t", onReleaseError: () => {} }).close();
// @ts-expect-error no backend has it
createBackend(url, { ttl: 5 });

{
  await using lock = createLock("redis://h", { keyPrefix: "app" });
  (await lock(({ fence }) => fence, { key: "k" })) satisfies string;
  lock.close({ timeoutMs: 1000 }) satisfies Promise<void>;
}
createLock(url) satisfies ManagedLock;
// @ts-expect-error milliseconds
createLock(url).close({ timeoutMs: "1000" });
// @ts-expect-error Redis has no tables
createLock("redis://h", { tableName: "t" });
