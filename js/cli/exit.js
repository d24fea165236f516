// The exit codes, and the error that ends the command with one.

/** As in sysexits.h. */
export const EXIT = /** @type {const} */ ({
  OK: 0,
  FAILED: 1,
  USAGE: 64,
  UNAVAILABLE: 69,
  LOST: 74,
  NOT_HAD: 75,
  NOT_SET_UP: 78,
  CANNOT_RUN: 126,
  NOT_FOUND: 127,
});

/** An end that a sentence explains. The text must not hold a key, a lockId or a URL. */
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
