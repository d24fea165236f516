// Translates a target of createFirestoreBackend() to the configuration of the connection.

import { explain, invalidArgument } from "../../base/errors.js";
import { checkTimeouts, checkTypes, isOptions, readBoth, SHARED_OPTIONS } from "../shared.js";
import {
  environmentProject,
  isClient,
  settingsOfClient,
  unreadableClient,
  withPort,
} from "./clients.js";

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

export const KNOWN = {
  kind: "Firestore",
  create: "createFirestoreBackend",
  defaults: "the environment, GOOGLE_CLOUD_PROJECT and so on",
  connection: [
    ...["projectId", "databaseId", "emulatorHost", "host", "port", "ssl"],
    ...["credentials", "keyFilename"],
  ],
  identifying: ["projectId", "emulatorHost", "host", "credentials", "keyFilename"],
  options: [...SHARED_OPTIONS, "collection", "fenceCollection", "cleanupInIsLocked"],
  noSettings: unreadableClient,
};

/**
 * Returns the configuration of the native backend, and the options that only JavaScript needs.
 * @param {any} target
 * @param {any} options
 * @returns {{ config: FirestoreConnection & Record<string, unknown>, hooks: Record<string, any> }}
 */
export function readTarget(target, options) {
  const client = isClient(target) ? target : undefined;
  const { connection, options: given } = readBoth(client ? undefined : target, options, KNOWN);
  checkTypes(given, "string", "collection", "fenceCollection");
  checkTypes(given, "boolean", "cleanupInIsLocked");
  checkTimeouts(given);
  const { onReleaseError, disposeTimeoutMs, holderLabel, releaseOnExit, ...config } = given;
  return {
    config: { ...(client ? settingsOfClient(client) : readPlain(target, connection)), ...config },
    hooks: { onReleaseError, disposeTimeoutMs, holderLabel, releaseOnExit },
  };
}

/**
 * @param {any} target
 * @param {Record<string, any>} connection
 * @returns {FirestoreConnection}
 */
function readPlain(target, { port, ...connection }) {
  if (target === undefined || target === null) return withEnvironment({});
  if (typeof target === "string" || target instanceof URL) return readUrl(String(target));
  if (isOptions(target)) {
    return withEnvironment({ ...connection, host: withPort(connection.host, port) });
  }
  throw invalidArgument(
    "The Firestore target must be a Firestore instance, an options object, a firestore: URL or nothing" +
      explain(target),
  );
}

/**
 * Reads `firestore://project/database`. Both parts are optional; `?emulatorHost=host:port` names an
 * emulator.
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
      "This Firestore URL cannot be read. A Firestore URL has the form firestore://project/database, with ?emulatorHost=host:port for an emulator",
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
    throw invalidArgument(
      'This Firestore URL cannot be read, because it has a malformed percent escape: write "%" as %25',
      { cause },
    );
  }
}

/**
 * Fills in missing options from the environment.
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
