// A stand-in for the addon. A test provides its answers, because real backends do not answer at the worst
// moment (late, after an abort, in two steps) on demand.

/** The calls so far, in order, without those that only read the time or a state. */
export const calls = [];
/** The results of the next operations: replies, or ids. */
export const next = [];
/** The time of the native side, the state of its holds, and whether it refuses to open. */
export const state = {};
/** The batches of replies that `take` delivers, one after the other. */
export const ready = [];
let onReplies;

export function reset() {
  calls.length = 0;
  next.length = 0;
  ready.length = 0;
  Object.assign(state, {
    ...{ now: 1000, heldFor: () => 29_990, isLate: () => false, expiresAt: 0, lost: null },
    ...{ takingReplies: false, refusal: undefined },
  });
}

/** Delivers replies as the native side does: `id, reply, id, reply, …`. */
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
  needsJavascript() {
    return state.takingReplies;
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
export const openCustom = opening("openCustom");

export const hashKey = (value) => `hash of ${value}`;
export const generateLockId = () => "i".repeat(22);
export const normalizeKey = (key) => `1${key}`;
export const checkLockId = () => "1";
export const makeStorageKey = (prefix, key) => `1${prefix}:${key}`;

/** Replaces `js/native/addon.js`. */
export const addon = () => ({
  ...{ Bridge, open, openCustom },
  ...{ hashKey, generateLockId, normalizeKey, checkLockId, makeStorageKey },
});

export const LOCK_ID = "abcdefghijklmnopqrstuv";
export const FENCE = "000000000000007";
const LOCK = `A${LOCK_ID}${FENCE}1700000030000`;
/** Returns the grant of a single acquire, valid until the given time of the native side's clock. */
export const GRANT = `${LOCK},30990`;
/** Returns the grant of a hold: with its number, the attempts and the milliseconds waited. */
export const HOLD = `${LOCK},7,3,250`;
export const DENIED = 'E{"code":"AuthFailed","message":"no"}';
export const LOST = 'E{"code":"LockLost","message":"lost"}';
