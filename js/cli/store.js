// Describes the store that a command uses, and which processes its locks protect.

/** @import { Finding } from "../../index.js" */
/** @typedef {import("./backend.js").Opened} Opened */

/**
 * @typedef {object} Store
 * @property {string} store where the locks are, without credentials
 * @property {string} protects which processes they exclude
 */

/** By the name of the backend.
 * @type {Record<string, string>} */
const PROTECTS = {
  sqlite: "this host only",
  redis: "all clients of this Redis server",
  postgres: "all clients of this PostgreSQL database",
  firestore: "all clients of this Firestore database",
};

const DEFAULT_FILE = "this host only, and only processes of this user";

/**
 * Asks the backend if the URL does not say everything: only the backend knows the location of the default
 * file and the project that Google's environment names.
 * @param {Opened} opened
 * @param {AbortSignal} [signal]
 * @returns {Promise<Store>}
 */
export async function describeStore({ backend, library, place }, signal) {
  const kind = backend.capabilities.backend;
  const isBare = /^[a-z]+:(\/\/)?$/i.test(place);
  const found = async (/** @type {string} */ name) => {
    const findings = await library.diagnose(backend, { signal });
    return findings.find((/** @type {Finding} */ finding) => finding.name === name)?.value;
  };
  if (kind === "sqlite") {
    const protects = isBare ? DEFAULT_FILE : PROTECTS.sqlite;
    return { store: `sqlite:${await found("file")}`, protects };
  }
  if (!isBare) return { store: place, protects: PROTECTS[kind] };
  const store = kind === "firestore" ? await found("server") : undefined;
  return { store: store ?? `${place} (the environment says which)`, protects: PROTECTS[kind] };
}

/** @param {Store} store */
export function storeSentence({ store, protects }) {
  return `${store} protects ${protects}`;
}
