// Locks inside one process: for tests and single-process programs.

export { createLock, createMemoryBackend } from "./targets/memory/backend.js";
