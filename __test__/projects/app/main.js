const { LockError, lock } = require("syncguard");
const { createMemoryBackend } = require("syncguard/memory");

const backend = createMemoryBackend();
lock(backend, ({ fence }) => fence, { key: "k" }).then(async (fence) => {
  const refused = await backend.acquire({ key: "", ttlMs: 1 }).catch((error) => error);
  console.log("locked", fence, refused instanceof LockError);
});
