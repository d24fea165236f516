// A stand-in for the addon whose answers a test gives by hand: what real backends do at the worst
// moment (answer late, after an abort, in two steps) cannot be had from them on demand.

export const calls = [];
/** What the next operation returns: a reply, or an id. */
export const next = [];
let onBatch;

export function answer(...batch) {
  onBatch(batch);
}

export class Bridge {
  constructor(callback) {
    onBatch = callback;
  }
}

const operation =
  (name) =>
  (...args) => {
    calls.push([name, ...args]);
    return next.shift();
  };

export const fake = Object.fromEntries(
  [
    ["acquire", "acquireWait", "release", "extend", "isLocked", "lookupKey", "lookupId"],
    ["hold", "holdExpiresAt", "cancel", "close"],
  ]
    .flat()
    .map((name) => [name, operation(name)]),
);

export const open = (_bridge, kind, config) => {
  calls.push(["open", kind, config]);
  return next.length > 0 ? next.shift() : fake;
};

export const hashKey = (value) => `hash of ${value}`;
export const generateLockId = () => "i".repeat(22);
export const normalizeKey = (key) => `1${key}`;
export const checkLockId = () => "1";
export const makeStorageKey = (prefix, key) => `1${prefix}:${key}`;
export const retryDelay = () => 1;

export const LOCK_ID = "abcdefghijklmnopqrstuv";
export const FENCE = "000000000000007";
export const GRANT = `A${LOCK_ID}${FENCE}1700000030000,29990`;
export const DENIED = 'E{"code":"AuthFailed","message":"no"}';
