// What a target of createFirestoreBackend() means for the connection.

import { invalidArgument, unreadableOptions } from "../../base/errors.js";

/**
 * @typedef {object} FirestoreConnection
 * @property {string} [projectId]
 * @property {string} [databaseId]
 * @property {string} [emulatorHost]
 * @property {string} [host]
 * @property {boolean} [ssl]
 * @property {object} [credentials]
 * @property {string} [keyFilename]
 */

/**
 * A `Firestore` of @google-cloud/firestore, whichever copy of it.
 * @param {any} target
 */
export function isFirestoreInstance(target) {
  return typeof target?.collection === "function" && typeof target.runTransaction === "function";
}

/**
 * @param {any} target
 * @returns {FirestoreConnection}
 */
export function readTarget(target) {
  if (isFirestoreInstance(target)) return fromInstance(target);
  if (target === undefined || target === null) return withEnvironment({});
  if (typeof target === "string") return readUrl(target);
  if (typeof target !== "object") {
    throw invalidArgument(
      "The Firestore target must be a Firestore instance, an options object, a firestore: URL or nothing",
    );
  }
  let given;
  try {
    const { projectId, databaseId, emulatorHost, ssl, credentials, keyFilename } = target;
    const host = withPort(target.host, target.port);
    given = { projectId, databaseId, emulatorHost, host, ssl, credentials, keyFilename };
  } catch (cause) {
    throw unreadableOptions("createFirestoreBackend()", target, cause);
  }
  return withEnvironment(given);
}

/**
 * `firestore://project/database`, either may be left out; `?emulatorHost=host:port` for an emulator.
 * @param {string} url
 * @returns {FirestoreConnection}
 */
function readUrl(url) {
  const parts = /^firestore:(?:\/\/)?([^/?#]*)(?:\/([^/?#]*))?\/?(?:\?([^#]*))?$/i.exec(url);
  const query = new URLSearchParams(parts?.[3]);
  const emulatorHost = query.get("emulatorHost") || undefined;
  query.delete("emulatorHost");
  if (parts === null || query.size > 0) {
    throw invalidArgument(
      "A Firestore URL has the form firestore://project/database, with ?emulatorHost=host:port for an emulator",
    );
  }
  return withEnvironment({
    projectId: decode(parts[1]),
    databaseId: decode(parts[2]),
    emulatorHost,
  });
}

/** @param {string | undefined} part */
function decode(part) {
  try {
    return decodeURIComponent(part ?? "") || undefined;
  } catch (cause) {
    throw invalidArgument("The Firestore URL has a malformed percent escape", { cause });
  }
}

/**
 * The settings that the instance was made with; it has merged the environment into them.
 * @param {any} db
 * @returns {FirestoreConnection}
 */
function fromInstance(db) {
  const settings = db._settings ?? {};
  const { ssl, credentials, keyFilename, keyFile } = settings;
  if (ssl !== false && (settings.authClient ?? settings.auth) !== undefined) {
    throw invalidArgument(
      "The credentials of this Firestore instance are an auth client, which cannot be read: pass { projectId, credentials } or { projectId, keyFilename } instead",
    );
  }
  return {
    projectId: settings.projectId ?? db._projectId ?? environmentProject(),
    databaseId: settings.databaseId ?? db._databaseId,
    host: withPort(settings.servicePath ?? settings.host ?? settings.apiEndpoint, settings.port),
    ssl,
    credentials,
    keyFilename: keyFilename ?? keyFile,
  };
}

/**
 * What the options leave open.
 * @param {any} given
 * @returns {FirestoreConnection}
 */
function withEnvironment(given) {
  const emulator =
    given.host === undefined ? process.env["FIRESTORE_EMULATOR_HOST"] || undefined : undefined;
  return {
    ...given,
    projectId: given.projectId ?? environmentProject(),
    emulatorHost: given.emulatorHost ?? emulator,
  };
}

function environmentProject() {
  return process.env["GOOGLE_CLOUD_PROJECT"] || process.env["GCLOUD_PROJECT"] || undefined;
}

/**
 * @param {any} host
 * @param {any} port
 */
function withPort(host, port) {
  if (typeof host !== "string" || port === undefined || /:\d+$/.test(host)) return host;
  return `${host}:${port}`;
}
