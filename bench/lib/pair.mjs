// What is measured of our backends.

/** Acquires and releases; throws when it did not get the lock. */
export const pairOf =
  (backend, ttlMs = 30_000) =>
  async (key) => {
    const result = await backend.acquire({ key, ttlMs });
    if (!result.ok) throw new Error("not acquired");
    await result.release();
  };
