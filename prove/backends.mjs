// Opens backends for workers. A `{ name, target, options }` can be passed as JSON.

const MAKERS = {
  redis: "createRedisBackend",
  postgres: "createPostgresBackend",
  firestore: "createFirestoreBackend",
  sqlite: "createSqliteBackend",
};

export async function openBackend({ name, target, options, ignoresLimits }) {
  if (name === "memory") {
    const { createMemoryBackend } = await import("../js/memory.js");
    const backend = createMemoryBackend();
    return ignoresLimits ? withoutLimits(backend) : backend;
  }
  const module = await import(`../js/${name}.js`);
  return module[MAKERS[name]](target, options);
}

/** A broken backend, which lets in any number of holders that share a key. */
function withoutLimits(backend) {
  const unlimited = (request) =>
    request.concurrency > 1 ? { ...request, concurrency: 1_000 } : request;
  return { ...backend, acquire: (request) => backend.acquire(unlimited(request)) };
}
