// Opens backends for workers. A `{ name, target, options }` can be passed as JSON.

const MAKERS = {
  redis: "createRedisBackend",
  postgres: "createPostgresBackend",
  firestore: "createFirestoreBackend",
  sqlite: "createSqliteBackend",
};

export async function openBackend({ name, target, options }) {
  if (name === "memory") {
    const { createMemoryBackend } = await import("../js/memory.js");
    return createMemoryBackend();
  }
  const module = await import(`../js/${name}.js`);
  return module[MAKERS[name]](target, options);
}
