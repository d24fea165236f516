// Credentials that a function of the program returns. It is called for each new connection.

import { register, unregister } from "../native/questions.js";

/** @typedef {{ username?: string | undefined, password?: string | undefined }} Credentials */

/**
 * Opens a backend that asks `ask` for its credentials.
 * @template T
 * @param {(() => Credentials | Promise<Credentials>) | undefined} ask undefined if the backend has its
 *   credentials already
 * @param {string} name of the function, for messages
 * @param {(config: { askCredentials?: number }) => T} open opens it with this addition to its configuration
 * @returns {T}
 */
export function withCredentials(ask, name, open) {
  if (ask === undefined) return open({});
  const askCredentials = register({
    answer: async () => checked(await ask(), name),
    describe: () => ({
      code: "AuthFailed",
      message: `${name} threw an error. context.cause is that error`,
    }),
    // The error may contain a part of the credentials.
    isSecret: true,
  });
  try {
    return open({ askCredentials });
  } catch (error) {
    unregister(askCredentials);
    throw error;
  }
}

/**
 * @param {any} found
 * @param {string} name
 * @returns {Credentials}
 */
function checked(found, name) {
  const { username, password } = found ?? {};
  for (const value of [username, password]) {
    if (value !== undefined && value !== null && typeof value !== "string") {
      throw new TypeError(`${name} returned a ${typeof value}: it must return a string`);
    }
  }
  return { username: username ?? undefined, password: password ?? undefined };
}
