import { createRequire } from "node:module";
import { LockError, lock } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

const fence = await lock(createMemoryBackend(), (context) => context.fence, { key: "k" });
const required = createRequire(import.meta.url)("syncguard");
console.log("locked", fence, required.LockError === LockError);
