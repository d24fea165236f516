// A stand-in for the addon whose answers a test gives by hand: what real backends do at the worst
// moment (answer late, after an abort, in two steps) cannot be had from them on demand.

/** What was called, in order; questions about time and state are not among it. */
export const calls = [];
/** What the next operation returns: a reply, or an id. */
export const next = [];
/** What the native side says of its time and of the holds, and whether it refuses to open. */
export const state = {};
/** What `take` brings: one batch after the other. */
export const ready = [];
let onReplies;

export function reset() {
  calls.length = 0;
  next.length = 0;
  ready.length = 0;
  Object.assign(state, {
    ...{ now: 1000, heldFor: () => 29_990, isLate: () => false, expiresAt: 0, lost: null },
    ...{ servedHere: false, refusal: undefined },
  });
}

/** The native side brings `id, reply, id, reply, …`. */
export function answer(...batch) {
  onReplies(...batch);
}

export class Bridge {
  constructor(callback) {
    onReplies = callback;
  }
  receipts() {
    return new ArrayBuffer(64);
  }
  setTime() {}
  take() {
    while (ready.length > 0) onReplies(...ready.shift());
  }
  answer(...args) {
    calls.push(["answer", ...args]);
  }
  fire(timer) {
    calls.push(["fire", timer]);
  }
}

class FakeBackend {
  calls() {
    return {};
  }
  now() {
    return state.now;
  }
  releaseOnExit() {}
  heldFor(number) {
    return state.heldFor(number);
  }
  isLate(number) {
    return Number(state.isLate(number));
  }
  holdExpiresAt() {
    return state.expiresAt;
  }
  holdLost() {
    return state.lost;
  }
  supportsSharing() {
    return true;
  }
  isServedHere() {
    return state.servedHere;
  }
}

const OPERATIONS = [
  ["acquire", "release", "extend", "isLocked", "lookupKey", "lookupId", "list", "forceRelease"],
  ["hold", "holdAgain", "endHold", "abandonHold", "alarm", "close"],
].flat();
const ORDERS = ["cancel", "listenHold"];

for (const name of [...OPERATIONS, ...ORDERS]) {
  FakeBackend.prototype[name] = function (...args) {
    calls.push([name, ...args]);
    return ORDERS.includes(name) ? undefined : next.shift();
  };
}

const opening =
  (name) =>
  (_bridge, ...args) => {
    calls.push([name, ...args]);
    return state.refusal ?? new FakeBackend();
  };
export const open = opening("open");
export const openOwn = opening("openOwn");

export const hashKey = (value) => `hash of ${value}`;
export const generateLockId = () => "i".repeat(22);
export const normalizeKey = (key) => `1${key}`;
export const checkLockId = () => "1";
export const makeStorageKey = (prefix, key) => `1${prefix}:${key}`;

/** In place of `js/native/addon.js`. */
export const addon = () => ({
  ...{ Bridge, open, openOwn },
  ...{ hashKey, generateLockId, normalizeKey, checkLockId, makeStorageKey },
});

export const LOCK_ID = "abcdefghijklmnopqrstuv";
export const FENCE = "000000000000007";
const LOCK = `A${LOCK_ID}${FENCE}1700000030000`;
/** Of a single acquire: valid until then, on the native side's clock. */
export const GRANT = `${LOCK},30990`;
/** Of a hold: its number, the attempts, the milliseconds waited. */
export const HOLD = `${LOCK},7,3,250`;
export const DENIED = 'E{"code":"AuthFailed","message":"no"}';
export const LOST = 'E{"code":"LockLost","message":"lost"}';
