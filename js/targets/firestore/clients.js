// Reads the connection settings of a `Firestore` of @google-cloud/firestore.

import { invalidArgument } from "../../base/errors.js";
import { noSettings } from "../shared.js";

/** @typedef {import("./target.js").FirestoreConnection} FirestoreConnection */

const REMEDY =
  "pass { projectId, emulatorHost } or { projectId, credentials }, or a firestore: URL, instead";

/**
 * Returns whether the target is a client. It is recognised by its method, so that any copy and version of
 * the library works. In an options object, `collection` is a string.
 * @param {any} target
 */
export function isClient(target) {
  return typeof target?.collection === "function";
}

export function unreadableClient() {
  return noSettings("Firestore", REMEDY);
}

/**
 * Reads the settings. The library takes whatever they leave out from the environment.
 * @param {any} db
 * @returns {FirestoreConnection}
 */
export function settingsOfClient(db) {
  const settings = db._settings;
  // A client's settings are never empty, because the library adds its own name and version to them.
  if (typeof settings !== "object" || settings === null || Object.keys(settings).length === 0) {
    throw unreadableClient();
  }
  const { ssl, credentials, keyFilename, keyFile } = settings;
  if (ssl !== false && (settings.authClient ?? settings.auth) !== undefined) {
    throw invalidArgument(
      "The credentials of this Firestore instance cannot be read, because they are an auth client: pass { projectId, credentials } or { projectId, keyFilename } instead",
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

export function environmentProject() {
  return process.env["GOOGLE_CLOUD_PROJECT"] || process.env["GCLOUD_PROJECT"] || undefined;
}

/**
 * @param {any} host
 * @param {any} port
 */
export function withPort(host, port) {
  if (typeof host !== "string" || port === undefined || /:\d+$/.test(host)) return host;
  return `${host}:${port}`;
}
