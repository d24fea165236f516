// Locks in Firestore.

export { createFirestoreBackend, createLock } from "./targets/firestore/backend.js";
