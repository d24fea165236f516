// The exit codes, and the error that ends `syncguard` with one of them.

/** As in sysexits.h. */
export const EXIT = /** @type {const} */ ({
  OK: 0,
  FAILED: 1,
  USAGE: 64,
  UNAVAILABLE: 69,
  LOST: 74,
  BUSY: 75,
  NOT_SET_UP: 78,
  CANNOT_RUN: 126,
  NOT_FOUND: 127,
});

/** Ends `syncguard` with a message. The message must not contain a key, a lockId or a URL. */
export class Ended extends Error {
  /**
   * @param {number} exitCode
   * @param {string} message
   */
  constructor(exitCode, message) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** @param {string} message */
export function wrongUsage(message) {
  return new Ended(EXIT.USAGE, message);
}
