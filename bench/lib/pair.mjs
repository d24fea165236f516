// The operation of our backends that is measured.

/** Acquires and releases. Throws if it does not get the lock. */
export const pairOf =
  (backend, ttlMs = 30_000) =>
  async (key) => {
    const result = await backend.acquire({ key, ttlMs });
    if (!result.ok) throw new Error("not acquired");
    await result.release();
  };
