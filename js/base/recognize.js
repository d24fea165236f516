// Recognises values that were passed instead of a backend, so that the error can name the function that
// accepts them. Values are recognised by their shape, so that any copy and version of a library works. No
// message shows the value itself, which may contain a password.

/**
 * @typedef {object} Recognized
 * @property {string} what
 * @property {string} remedy
 */

const OPENED_BY_URL = /^(rediss?|postgres(ql)?|firestore|sqlite|memory):/i;
const BACKEND_OF_REDIS = 'createRedisBackend(client) of "syncguard/redis" makes a backend of it';
const BACKEND_OF_POSTGRES =
  'createPostgresBackend(client) of "syncguard/postgres" makes a backend of it';

/** The functions that createLock() returned.
 * @type {WeakSet<Function>} */
const lockFunctions = new WeakSet();

/** @param {Function} lock */
export function rememberLockFunction(lock) {
  lockFunctions.add(lock);
}

/**
 * Describes the value. Returns `undefined` if it resembles nothing that people pass by mistake.
 * @param {any} value
 * @returns {Recognized | undefined}
 */
export function recognize(value) {
  try {
    if (value === undefined || value === null) {
      return { what: String(value), remedy: "check where the value comes from" };
    }
    if (typeof value === "string") return recognizeText(value);
    if (typeof value === "function") return recognizeFunction(value) ?? recognizeName(value);
    if (typeof value === "object") {
      return isBackend(value) ? undefined : recognizeObject(value);
    }
  } catch {
    // The properties of this object cannot be read.
  }
  return undefined;
}

/** Describes a backend that was passed where something else is expected. */
export const A_BACKEND = {
  what: "a backend already",
  remedy: "pass it to lock() and the other functions, or to createAutoLock()",
};

/** @param {any} value */
export function isBackend(value) {
  try {
    return typeof value?.acquire === "function";
  } catch {
    return false;
  }
}

/**
 * Recognises functions that are not meant to run under a lock. It must be cheap: every call checks.
 * @param {Function} value
 * @returns {Recognized | undefined}
 */
export function recognizeFunction(value) {
  if (lockFunctions.has(value)) {
    return {
      what: "the function that createLock() returned",
      remedy:
        "call it, or its own tryLock(fn, config), hold(config), tryHold(config), lead(fn, config)",
    };
  }
  return isPostgresJs(value)
    ? { what: "the sql function of postgres.js", remedy: BACKEND_OF_POSTGRES }
    : undefined;
}

/** @param {any} value */
function isPostgresJs(value) {
  try {
    // A deep mock has a function under every name, but no data.
    return typeof value.unsafe === "function" && typeof value.options === "object";
  } catch {
    return false;
  }
}

/** @param {Function} value */
function recognizeName(value) {
  if (/^create\w*(Backend|Lock)$/.test(value.name)) {
    return {
      what: `the function ${value.name}`,
      remedy: "call it, and pass the backend it returns",
    };
  }
  if (/^class\b/.test(Function.prototype.toString.call(value))) {
    return {
      what: "a class",
      remedy: "pass a backend, which create…Backend() makes of an instance",
    };
  }
  return { what: "a function", remedy: "the backend comes first, then the function" };
}

/** @param {string} text */
function recognizeText(text) {
  if (OPENED_BY_URL.test(text)) {
    return { what: "a URL", remedy: 'createBackend(url) of "syncguard" makes a backend of it' };
  }
  if (/^(valkeys?|unix):/i.test(text)) {
    return { what: "a URL", remedy: BACKEND_OF_REDIS.replace("client", "url") };
  }
  return {
    what: "a string",
    remedy:
      'createBackend(url) of "syncguard" makes a backend of a URL, createSqliteBackend(path) of "syncguard/sqlite" one of a file',
  };
}

/**
 * @param {any} value
 * @returns {Recognized | undefined}
 */
function recognizeObject(value) {
  const has = (/** @type {string} */ name) => typeof value[name] === "function";
  if (value instanceof URL) return recognizeText(value.href);
  if (has("then")) return { what: "a Promise", remedy: "await it first" };
  if (has("defineCommand")) return { what: "an ioredis client", remedy: BACKEND_OF_REDIS };
  if (has("sendCommand")) return { what: "a node-redis client", remedy: BACKEND_OF_REDIS };
  if (has("eval")) return { what: "a Redis client", remedy: BACKEND_OF_REDIS };
  if (has("query") && has("connect")) {
    const what = typeof value.totalCount === "number" ? "a Pool of pg" : "a Client of pg";
    return { what, remedy: BACKEND_OF_POSTGRES };
  }
  if (has("collection") && has("runTransaction")) {
    return {
      what: "a Firestore instance",
      remedy: 'createFirestoreBackend(db) of "syncguard/firestore" makes a backend of it',
    };
  }
  if (has("prepare") && has("exec")) {
    return {
      what: "a SQLite database",
      remedy: 'createSqliteBackend(path) of "syncguard/sqlite" makes a backend of its file',
    };
  }
  if (has("release") && typeof value.lockId === "string") {
    return { what: "a lock", remedy: "pass the backend that it was acquired on" };
  }
  const create = Object.keys(value).find((name) => /^create\w+Backend$/.test(name) && has(name));
  if (create !== undefined) {
    return { what: "a module", remedy: `pass the backend that its ${create}() returns` };
  }
  if (typeof value.key === "string") {
    return { what: "a config", remedy: "it comes last, after the backend and the function" };
  }
  return undefined;
}
