// The arguments of request(), converted and checked in the order of the standard: first as Web IDL
// converts them (TypeError), then by the rules of request() (DOMException).

/**
 * The lock that a caller requests, with its options.
 * @typedef {object} Wanted
 * @property {string} name
 * @property {"shared" | "exclusive"} mode
 * @property {boolean} ifAvailable
 * @property {boolean} steal
 * @property {AbortSignal | undefined} signal
 * @property {(lock: any) => any} callback
 */

/**
 * Converts the arguments: `(name, callback)` or `(name, options, callback)`.
 * @param {ArrayLike<any>} args
 * @returns {Wanted}
 */
export function convert(args) {
  if (args.length < 2) {
    throw new TypeError(`request() needs a name and a callback, but got ${countOf(args.length)}`);
  }
  const hasOptions = args.length > 2;
  // A template converts as Web IDL does: String() would accept a symbol.
  const name = `${args[0]}`;
  const options = readOptions(hasOptions ? args[1] : undefined);
  const callback = hasOptions ? args[2] : args[1];
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  return { name, ...options, callback };
}

/**
 * Throws if the standard does not allow the combination, or if the signal is aborted.
 * @param {Wanted} wanted
 */
export function check({ name, mode, ifAvailable, steal, signal }) {
  if (name.startsWith("-")) throw notSupported('A name must not start with "-"');
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable exclude each other");
  if (steal && mode !== "exclusive") throw notSupported('steal needs the mode "exclusive"');
  if (signal === undefined) return;
  if (steal) throw notSupported("signal and steal exclude each other");
  if (ifAvailable) throw notSupported("signal and ifAvailable exclude each other");
  if (signal.aborted) throw signal.reason;
}

/** @param {string} message */
export function notSupported(message) {
  return new DOMException(message, "NotSupportedError");
}

/**
 * Reads the options in the order of the standard, the alphabet, and converts each before the next.
 * @param {any} options
 */
function readOptions(options) {
  if (options === undefined || options === null) options = {};
  if (typeof options !== "object" && typeof options !== "function") {
    throw new TypeError("The options must be an object");
  }
  const ifAvailable = Boolean(options.ifAvailable);
  const mode = toMode(options.mode);
  const signal = toSignal(options.signal);
  const steal = Boolean(options.steal);
  return { ifAvailable, mode, signal, steal };
}

/**
 * @param {any} value
 * @returns {"shared" | "exclusive"}
 */
function toMode(value) {
  if (value === undefined) return "exclusive";
  const mode = `${value}`;
  if (mode === "shared" || mode === "exclusive") return mode;
  throw new TypeError('The mode must be "shared" or "exclusive"');
}

/**
 * @param {any} value
 * @returns {AbortSignal | undefined}
 */
function toSignal(value) {
  if (value === undefined) return undefined;
  if (isAbortSignal(value)) return value;
  throw new TypeError("The signal must be an AbortSignal");
}

/** The runtime's own getter. It throws if `this` is not an AbortSignal of the runtime, of any realm.
 * @type {(this: unknown) => boolean} */
const getAborted = /** @type {any} */ (
  Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")
).get;

/** @param {any} value */
function isAbortSignal(value) {
  try {
    getAborted.call(value);
    return true;
  } catch {
    // Test environments such as jsdom replace the global class.
    return value instanceof globalThis.AbortSignal && typeof value.aborted === "boolean";
  }
}

/** @param {number} count */
function countOf(count) {
  return count === 0 ? "no argument" : "only one argument";
}
