// What the standard demands of `navigator.locks`, as far as one process can observe it. Each behaviour
// gets a lock manager and a name of its own. They run on ours and on that of Node.js.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const never = new Promise(() => {});

/** A promise, and the functions that settle it. */
export function deferred() {
  const one = {};
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }));
  return one;
}

/** Requests a lock and holds it until `release()`; resolves when it is held. */
export async function holdLock(locks, name, options = {}) {
  const granted = deferred();
  const { promise, resolve: release } = deferred();
  const released = locks.request(name, options, (lock) => {
    granted.resolve(lock);
    return promise;
  });
  // Some tests steal it. An error before the grant must not hang the test.
  released.catch(granted.reject);
  const lock = await granted.promise;
  return { lock, released, release };
}

const modes = (list, name) => list.filter((one) => one.name === name).map(({ mode }) => mode);
const clients = (list, name) => list.filter((one) => one.name === name).map((one) => one.clientId);
const abortError = { name: "AbortError", code: DOMException.ABORT_ERR };
const notSupported = { name: "NotSupportedError", code: DOMException.NOT_SUPPORTED_ERR };
const neverCalled = () => assert.fail("the callback must not be called");

/** Rejects with a DOMException of this name and code. */
async function rejectsWith(expected, promise) {
  await assert.rejects(promise, (error) => {
    assert(error instanceof DOMException, `${error}`);
    const { name, code } = error;
    assert.deepEqual({ name, code }, expected);
    return true;
  });
}

const rejectsWithTypeError = (promise) => assert.rejects(promise, TypeError);

async function rejectsExactly(thrown, promise) {
  const outcome = await promise.then(
    () => assert.fail("it does not reject"),
    (error) => ({ error }),
  );
  assert.equal(outcome.error, thrown);
}

export const ARGUMENTS = {
  "a name and a callback are required": async (locks, name) => {
    await rejectsWithTypeError(locks.request());
    await rejectsWithTypeError(locks.request(name));
  },

  "the callback must be a function": async (locks, name) => {
    for (const wrong of [undefined, null, 123, "abc", [], {}, Promise.resolve(), Symbol("s")]) {
      await rejectsWithTypeError(locks.request(name, wrong));
      await rejectsWithTypeError(locks.request(name, {}, wrong));
    }
    // With three arguments, the last one is the callback.
    await rejectsWithTypeError(locks.request(name, neverCalled, undefined));
  },

  "further arguments are ignored": async (locks, name) => {
    assert.equal(await locks.request(name, {}, ({ mode }) => mode, neverCalled, 5), "exclusive");
  },

  "a wrong argument is a rejection, never an exception": (locks) => {
    const promises = [locks.request(), locks.request(Symbol("s"), neverCalled)];
    for (const promise of promises) {
      assert(promise instanceof Promise);
      promise.catch(() => {});
    }
  },

  "the name is converted to a string": async (locks, name) => {
    for (const [value, text] of [
      [123, "123"],
      [null, "null"],
      [undefined, "undefined"],
      [{ toString: () => name }, name],
    ]) {
      assert.equal(await locks.request(value, (lock) => lock.name), text);
    }
    await rejectsWithTypeError(locks.request(Symbol("s"), neverCalled));
    const thrown = new Error("of toString");
    const hostile = {
      toString() {
        throw thrown;
      },
    };
    await rejectsExactly(thrown, locks.request(hostile, neverCalled));
  },

  "the options must be an object; undefined and null are none": async (locks, name) => {
    for (const wrong of [123, "abc", true, Symbol("s"), 5n]) {
      await rejectsWithTypeError(locks.request(name, wrong, neverCalled));
    }
    for (const none of [undefined, null, {}, () => {}, [], { unknown: 1 }]) {
      assert.equal(await locks.request(name, none, ({ mode }) => mode), "exclusive");
    }
  },

  'the mode must be "shared" or "exclusive"': async (locks, name) => {
    for (const mode of ["foo", null, "", "Shared", 1, {}]) {
      await rejectsWithTypeError(locks.request(name, { mode }, neverCalled));
    }
    const text = { toString: () => "exclusive" };
    for (const mode of [undefined, "exclusive", text]) {
      assert.equal(await locks.request(name, { mode }, (lock) => lock.mode), "exclusive");
    }
  },

  "the signal must be an AbortSignal": async (locks, name) => {
    const others = ["string", 12.34, false, {}, Symbol("s"), () => {}, globalThis, null];
    for (const signal of [...others, Object.create(AbortSignal.prototype)]) {
      await rejectsWithTypeError(locks.request(name, { signal }, neverCalled));
    }
    assert.equal(await locks.request(name, { signal: undefined }, () => "none"), "none");
  },

  'names that start with "-" are refused': async (locks, name) => {
    for (const wrong of ["-", "-foo"]) {
      await rejectsWith(notSupported, locks.request(wrong, neverCalled));
    }
    assert.equal(await locks.request(`x-${name}`, () => "granted"), "granted");
  },

  "steal and ifAvailable exclude each other": (locks, name) =>
    rejectsWith(notSupported, locks.request(name, { steal: true, ifAvailable: true }, neverCalled)),

  "steal is for exclusive locks": (locks, name) =>
    rejectsWith(notSupported, locks.request(name, { steal: true, mode: "shared" }, neverCalled)),

  "a signal excludes steal and ifAvailable, even if it is aborted": async (locks, name) => {
    for (const signal of [new AbortController().signal, AbortSignal.abort()]) {
      for (const option of ["steal", "ifAvailable"]) {
        const options = { signal, [option]: true };
        await rejectsWith(notSupported, locks.request(name, options, neverCalled));
      }
    }
  },

  "types come before rules, and rules before the signal": async (locks) => {
    const signal = AbortSignal.abort();
    await rejectsWithTypeError(locks.request("-x", { mode: "foo" }, neverCalled));
    await rejectsWithTypeError(locks.request("-x", { signal: 1 }, neverCalled));
    await rejectsWithTypeError(locks.request("-x", { steal: true, ifAvailable: true }, 1));
    await rejectsWith(notSupported, locks.request("-x", { signal }, neverCalled));
  },

  "the options are read once each, in alphabetical order": async (locks, name) => {
    const read = [];
    const options = {};
    for (const key of ["steal", "signal", "mode", "ifAvailable"]) {
      Object.defineProperty(options, key, { get: () => void read.push(key) });
    }
    await locks.request(name, options, () => {});
    assert.deepEqual(read, ["ifAvailable", "mode", "signal", "steal"]);
  },

  "what a getter of the options throws is the rejection": async (locks, name) => {
    const thrown = new Error("of a getter");
    const options = {
      get mode() {
        throw thrown;
      },
    };
    await rejectsExactly(thrown, locks.request(name, options, neverCalled));
  },
};

export const CALLBACKS = {
  "the callback gets a lock with its name and mode": async (locks, name) => {
    const lock = await locks.request(name, (one) => one);
    assert.deepEqual([lock.name, lock.mode], [name, "exclusive"]);
    assert.equal(await locks.request(name, { mode: "exclusive" }, (one) => one.mode), "exclusive");
  },

  "the callback is called without this, and with one argument": async (locks, name) => {
    function callback() {
      "use strict";
      return [this, arguments.length];
    }
    assert.deepEqual(await locks.request(name, callback), [undefined, 1]);
  },

  "the callback is never called at once": async (locks, name) => {
    const order = [];
    const promise = locks.request(name, () => void order.push("callback"));
    order.push("request() returned");
    await promise;
    assert.deepEqual(order, ["request() returned", "callback"]);
  },

  "request() settles after the callback's promise": async (locks, name) => {
    const { promise, resolve } = deferred();
    const order = [];
    const returned = locks.request(name, () => promise);
    returned.then(() => order.push("returned"));
    promise.then(() => order.push("holding"));
    resolve();
    await Promise.all([returned, promise]);
    assert.deepEqual(order, ["holding", "returned"]);
  },

  "request() settles after the lock is released": async (locks, name) => {
    await locks.request(name, () => {});
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock?.name), name);
    await locks.request(name, () => Promise.reject(new Error("e"))).catch(() => {});
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock?.name), name);
    const { held, pending } = await locks.query();
    assert.deepEqual([modes(held, name), modes(pending, name)], [[], []]);
  },

  "the value of the callback is that of request()": async (locks, name) => {
    const value = {};
    assert.equal(await locks.request(name, () => value), value);
    assert.equal(await locks.request(name, async () => value), value);
    assert.equal(await locks.request(name, () => ({ then: (resolve) => resolve(7) })), 7);
    assert.equal(await locks.request(name, () => {}), undefined);
  },

  "request() rejects with what the callback throws or rejects with": async (locks, name) => {
    const thrown = { name: "test" };
    const throwing = locks.request(name, () => {
      throw thrown;
    });
    assert.equal(Promise.resolve(throwing), throwing);
    await rejectsExactly(thrown, throwing);
    const rejecting = locks.request(name, () => Promise.reject(thrown));
    await rejectsExactly(thrown, rejecting);
    await rejectsExactly(
      thrown,
      locks.request(name, async () => {
        await sleep(1);
        throw thrown;
      }),
    );
  },

  "a thenable that the callback throws is not called": async (locks, name) => {
    let called = false;
    const thrown = { then: () => (called = true) };
    const promise = locks.request(name, () => {
      throw thrown;
    });
    await rejectsExactly(thrown, promise);
    assert.equal(called, false);
  },

  "a lock is held until the callback's promise is settled": async (locks, name) => {
    for (const settle of ["resolve", "reject"]) {
      const granted = deferred();
      const work = deferred();
      const order = [];
      const first = locks.request(name, () => {
        granted.resolve();
        return work.promise;
      });
      await granted.promise;
      await Promise.all([
        sleep(30).then(() => {
          order.push("first settles");
          work[settle](new Error("of the work"));
        }),
        locks.request(name, () => void order.push("second is granted")),
        first.catch(() => {}),
      ]);
      assert.deepEqual(order, ["first settles", "second is granted"]);
    }
  },

  "a lock is released if the callback throws": async (locks, name) => {
    const first = locks.request(name, () => {
      throw new Error("e");
    });
    const second = locks.request(name, () => "granted");
    await assert.rejects(first, /^Error: e$/);
    assert.equal(await second, "granted");
  },
};

export const ORDER = {
  "requests are granted in order": async (locks, name) => {
    const granted = [];
    const log = (number) => () => void granted.push(number);
    await Promise.all([1, 2, 3, 4, 5].map((number) => locks.request(name, log(number))));
    assert.deepEqual(granted, [1, 2, 3, 4, 5]);
  },

  "only one exclusive lock is held on a name": async (locks, name) => {
    let inside = 0;
    let most = 0;
    const work = async () => {
      most = Math.max(most, (inside += 1));
      await sleep(1);
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 8 }, () => locks.request(name, work)));
    assert.equal(most, 1);
  },

  "locks on different names do not exclude each other": async (locks, name) => {
    const order = [];
    let inner;
    await locks.request(`${name}-1`, async () => {
      inner = locks.request(`${name}-1`, () => void order.push("blocked"));
      await locks.request(`${name}-2`, () => void order.push("other name"));
      order.push("outer ends");
    });
    await inner;
    assert.deepEqual(order, ["other name", "outer ends", "blocked"]);
  },

  "callbacks of different names are called in the order of their requests": async (locks, name) => {
    for (let round = 0; round < 5; round += 1) {
      const called = [];
      const names = [0, 1, 2, 3, 4, 5].map((number) => `${name}-${round}-${number}`);
      await Promise.all(names.map((one) => locks.request(one, () => void called.push(one))));
      assert.deepEqual(called, names);
    }
  },

  "a request inside of a callback is granted after those that wait": async (locks, name) => {
    const order = [];
    const inner = deferred();
    const outer = locks.request(name, async () => {
      await sleep(5);
      inner.resolve(locks.request(name, () => void order.push("inner")));
    });
    const second = locks.request(name, () => void order.push("second"));
    await Promise.all([outer, second, inner.promise.then((one) => one)]);
    assert.deepEqual(order, ["second", "inner"]);
  },
};

export const IF_AVAILABLE = {
  "an available lock is granted": async (locks, name) => {
    const lock = await locks.request(name, { ifAvailable: true }, (one) => one);
    assert.equal(lock.name, name);
  },

  "the callback gets null if the lock is held, and later the lock": async (locks, name) => {
    await locks.request(name, async (lock) => {
      assert.notEqual(lock, null);
      await locks.request(name, { ifAvailable: true }, (other) => assert.equal(other, null));
    });
    await locks.request(name, { ifAvailable: true }, (lock) => assert.notEqual(lock, null));
  },

  "the callback gets null if another request waits": async (locks, name) => {
    const { release, released } = await holdLock(locks, name);
    const second = locks.request(name, () => "second");
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null);
    release();
    await released;
    assert.equal(await second, "second");
  },

  "without a lock, the callback's outcome is that of request()": async (locks, name) => {
    await locks.request(name, async () => {
      const options = { ifAvailable: true };
      assert.equal(await locks.request(name, options, async () => 123), 123);
      const thrown = { name: "test" };
      await rejectsExactly(
        thrown,
        locks.request(name, options, () => {
          throw thrown;
        }),
      );
      await rejectsExactly(
        thrown,
        locks.request(name, options, () => Promise.reject(thrown)),
      );
    });
  },

  "the callback with null is not called at once, and holds nothing": async (locks, name) => {
    await locks.request(name, async () => {
      let isCalled = false;
      const work = deferred();
      const promise = locks.request(name, { ifAvailable: true }, () => {
        isCalled = true;
        return work.promise;
      });
      assert.equal(isCalled, false);
      await locks.request(name, { ifAvailable: true }, () => {});
      assert.equal(isCalled, true);
      const { held, pending } = await locks.query();
      assert.deepEqual([modes(held, name), modes(pending, name)], [["exclusive"], []]);
      work.resolve();
      await promise;
    });
  },

  "two at once: the first gets the lock": async (locks, name) => {
    const options = { ifAvailable: true };
    const get = (lock) => lock?.name ?? null;
    const both = [locks.request(name, options, get), locks.request(name, options, get)];
    assert.deepEqual(await Promise.all(both), [name, null]);
  },

  "it is granted while other names are held": async (locks, name) => {
    await locks.request(`${name}-1`, async () => {
      const options = { ifAvailable: true };
      assert.notEqual(await locks.request(`${name}-2`, options, (lock) => lock), null);
    });
  },
};

export const STEAL = {
  "an available lock is granted": async (locks, name) => {
    assert.equal(await locks.request(name, { steal: true }, (lock) => lock.mode), "exclusive");
  },

  "a held lock is granted, and its request rejects": async (locks, name) => {
    const { released } = await holdLock(locks, name);
    const rejected = rejectsWith(abortError, released);
    assert.equal(await locks.request(name, { steal: true }, (lock) => lock.name), name);
    await rejected;
  },

  "the request of the stolen lock rejects before the thief is called": async (locks, name) => {
    const order = [];
    const { released } = await holdLock(locks, name);
    released.catch(() => order.push("rejected"));
    await locks.request(name, { steal: true }, () => void order.push("thief"));
    assert.deepEqual(order, ["rejected", "thief"]);
  },

  "a request that waits goes on waiting": async (locks, name) => {
    (await holdLock(locks, name)).released.catch(() => {});
    let isGranted = false;
    const second = locks.request(name, () => (isGranted = true));
    await locks.request(name, { steal: true }, async () => {
      await sleep(5);
      assert.equal(isGranted, false);
    });
    await second;
    assert.equal(isGranted, true);
  },

  "the last thief wins": async (locks, name) => {
    const { released } = await holdLock(locks, name);
    const first = locks.request(name, { steal: true }, () => never);
    const both = [rejectsWith(abortError, released), rejectsWith(abortError, first)];
    assert.equal(await locks.request(name, { steal: true }, () => "last"), "last");
    await Promise.all(both);
  },

  "a lock that was requested in the same turn is stolen after it was granted": async (
    locks,
    name,
  ) => {
    const called = [];
    const first = locks.request(name, () => {
      called.push("first");
      return never;
    });
    const rejected = rejectsWith(abortError, first);
    await locks.request(name, { steal: true }, () => void called.push("thief"));
    await rejected;
    assert.deepEqual(called, ["first", "thief"]);
  },

  "the callback of a stolen lock continues, and changes nothing when it ends": async (
    locks,
    name,
  ) => {
    const { release, released } = await holdLock(locks, name);
    const rejected = rejectsWith(abortError, released);
    let isGranted = false;
    const thief = await holdLock(locks, name, { steal: true });
    const next = locks.request(name, () => (isGranted = true));
    release();
    await rejected;
    await sleep(20);
    assert.equal(isGranted, false);
    const { held } = await locks.query();
    assert.deepEqual(modes(held, name), ["exclusive"]);
    thief.release();
    await Promise.all([thief.released, next]);
  },

  "a rejection of a callback whose lock was stolen is nobody's": async (locks, name) => {
    const work = deferred();
    const granted = deferred();
    const first = locks.request(name, () => {
      granted.resolve();
      return work.promise;
    });
    const rejected = rejectsWith(abortError, first);
    await granted.promise;
    await locks.request(name, { steal: true }, () => {});
    work.reject(new Error("nobody hears of it"));
    await rejected;
  },
};

export const SIGNAL = {
  "an aborted signal rejects with its reason": async (locks, name) => {
    const reason = { custom: true };
    const options = { signal: AbortSignal.abort(reason) };
    await rejectsExactly(reason, locks.request(name, options, neverCalled));
    const { signal } = { signal: AbortSignal.abort() };
    await rejectsExactly(signal.reason, locks.request(name, { signal }, neverCalled));
    await rejectsWith(abortError, locks.request(name, { signal }, neverCalled));
    await rejectsExactly(
      "text",
      locks.request(name, { signal: AbortSignal.abort("text") }, neverCalled),
    );
  },

  "a waiting request rejects, and is not pending any more": async (locks, name) => {
    const { release, released } = await holdLock(locks, name);
    const controller = new AbortController();
    const { signal } = controller;
    const promise = locks.request(name, { signal }, neverCalled);
    const before = await locks.query();
    assert.deepEqual(modes(before.held, name), ["exclusive"]);
    assert.deepEqual(modes(before.pending, name), ["exclusive"]);
    const rejected = rejectsExactly("reason", promise);
    controller.abort("reason");
    await rejected;
    const after = await locks.query();
    assert.deepEqual(modes(after.held, name), ["exclusive"]);
    assert.deepEqual(modes(after.pending, name), []);
    release();
    await released;
  },

  "a signal that times out rejects with TimeoutError": async (locks, name) => {
    const { release, released } = await holdLock(locks, name);
    const signal = AbortSignal.timeout(10);
    const promise = locks.request(name, { signal }, neverCalled);
    await rejectsWith({ name: "TimeoutError", code: DOMException.TIMEOUT_ERR }, promise);
    release();
    await released;
  },

  "an abort in the same turn wins, and blocks nobody": async (locks, name) => {
    const controller = new AbortController();
    const { signal } = controller;
    const promise = locks.request(name, { signal }, neverCalled);
    controller.abort();
    await rejectsWith(abortError, promise);
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock?.name), name);
  },

  "an abort in a microtask after the request wins": async (locks, name) => {
    const controller = new AbortController();
    const { signal } = controller;
    const promise = locks.request(name, { signal }, neverCalled);
    queueMicrotask(() => controller.abort());
    await rejectsWith(abortError, promise);
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock?.name), name);
  },

  "an abort after the grant does nothing": async (locks, name) => {
    const controller = new AbortController();
    const { signal } = controller;
    const granted = deferred();
    const work = deferred();
    const promise = locks.request(name, { signal }, () => {
      granted.resolve();
      return work.promise;
    });
    await granted.promise;
    controller.abort();
    work.resolve("resolved ok");
    assert.equal(await promise, "resolved ok");
  },

  "an abort after the release does nothing": async (locks, name) => {
    const controller = new AbortController();
    const { signal } = controller;
    assert.equal(await locks.request(name, { signal }, () => "value"), "value");
    controller.abort();
    assert.equal(await locks.request(name, () => "next"), "next");
  },

  "an aborted request does not hold up those behind it": async (locks, name) => {
    const first = await holdLock(locks, name);
    const controller = new AbortController();
    const { signal } = controller;
    const second = locks.request(name, { signal }, neverCalled);
    const third = locks.request(name, () => "third");
    const rejected = rejectsWith(abortError, second);
    controller.abort();
    await rejected;
    first.release();
    await first.released;
    assert.equal(await third, "third");
  },

  "one signal for many requests": async (locks, name) => {
    const { release, released } = await holdLock(locks, name);
    const controller = new AbortController();
    const { signal } = controller;
    const requests = Array.from({ length: 20 }, () => locks.request(name, { signal }, neverCalled));
    const all = Promise.allSettled(requests);
    await locks.query();
    controller.abort("all");
    for (const { status, reason } of await all) {
      assert.deepEqual([status, reason], ["rejected", "all"]);
    }
    const { pending } = await locks.query();
    assert.deepEqual(modes(pending, name), []);
    release();
    await released;
  },

  "another listener cannot hide the abort": async (locks, name) => {
    const { release, released } = await holdLock(locks, name);
    const controller = new AbortController();
    const { signal } = controller;
    signal.addEventListener("abort", (event) => event.stopImmediatePropagation());
    const promise = locks.request(name, { signal }, neverCalled);
    const rejected = rejectsWith(abortError, promise);
    await locks.query();
    controller.abort();
    await rejected;
    release();
    await released;
  },
};

export const QUERY = {
  "the snapshot is a dictionary with two arrays of dictionaries": async (locks, name) => {
    await locks.request(name, async () => {
      const second = locks.request(name, () => {});
      await locks.request(name, { ifAvailable: true }, async (lock) => {
        assert.equal(lock, null);
        const state = await locks.query();
        assert.deepEqual(Object.keys(state).sort(), ["held", "pending"]);
        for (const list of [state.held, state.pending]) {
          assert(Array.isArray(list));
          const [info] = list.filter((one) => one.name === name);
          assert.deepEqual(Object.keys(info).sort(), ["clientId", "mode", "name"]);
          assert.equal(info.mode, "exclusive");
          assert.equal(typeof info.clientId, "string");
        }
      });
      second.catch(() => {});
    });
  },

  "it shows what was requested just before": async (locks, name) => {
    const work = deferred();
    const first = locks.request(name, () => work.promise);
    const second = locks.request(name, () => {});
    const { held, pending } = await locks.query();
    assert.deepEqual([modes(held, name), modes(pending, name)], [["exclusive"], ["exclusive"]]);
    work.resolve();
    await Promise.all([first, second]);
  },

  "it shows each held lock once": async (locks, name) => {
    await locks.request(`${name}-1`, () =>
      locks.request(`${name}-2`, async () => {
        const { held } = await locks.query();
        assert.deepEqual(modes(held, `${name}-1`), ["exclusive"]);
        assert.deepEqual(modes(held, `${name}-2`), ["exclusive"]);
        assert.deepEqual(clients(held, `${name}-1`), clients(held, `${name}-2`));
      }),
    );
    const { held } = await locks.query();
    assert.deepEqual([...modes(held, `${name}-1`), ...modes(held, `${name}-2`)], []);
  },

  "a stolen lock is not held any more, and the thief's is": async (locks, name) => {
    const { released } = await holdLock(locks, name);
    released.catch(() => {});
    const second = locks.request(name, () => {});
    await locks.request(name, { steal: true }, async () => {
      const { held, pending } = await locks.query();
      assert.deepEqual([modes(held, name), modes(pending, name)], [["exclusive"], ["exclusive"]]);
    });
    await second;
  },

  "the next request is held once the one before has settled": async (locks, name) => {
    const first = await holdLock(locks, name);
    const work = deferred();
    const second = locks.request(name, () => work.promise);
    first.release();
    await first.released;
    const { held, pending } = await locks.query();
    assert.deepEqual([modes(held, name), modes(pending, name)], [["exclusive"], []]);
    work.resolve();
    await second;
  },

  "the lists are in the order of grants and of requests": async (locks, name) => {
    const names = [1, 2, 3, 4].map((number) => `${name}-${number}`).reverse();
    const holders = [];
    for (const one of names) holders.push(await holdLock(locks, one));
    const waiting = names.map((one) => locks.request(one, () => {}));
    const { held, pending } = await locks.query();
    const ours = (list) => list.filter((one) => one.name.startsWith(name)).map((one) => one.name);
    assert.deepEqual(ours(held), names);
    assert.deepEqual(ours(pending), names);
    for (const { release } of holders) release();
    await Promise.all([...waiting, ...holders.map(({ released }) => released)]);
  },
};

export const NAMES = {
  "every string is a name": async (locks, name) => {
    const strings = [
      ...["", "abc\0def", "\uD800", "\uDC00", "\uDC00\uD800", "\uFFFF", " ", "a\nb", "%u0041"],
      ...["Größe", "e\u0301", "\u00e9", "😀", "a:b/c{d}*?", ".", "..", "__x__", "\u202e"],
      ...["x".repeat(10_000), "\uD800".repeat(5_000), "id:abc", "fence:x"],
    ];
    for (const string of strings) {
      const text = string === "" ? string : `${string}${name}`;
      assert.equal(await locks.request(text, (lock) => lock.name), text);
    }
  },

  "names that look alike are different names": async (locks, name) => {
    const groups = [
      ["\uD800", "\uFFFD", "\uD801", "%uD800", "\uDC00"],
      ["e\u0301", "\u00e9"],
      ["\u212b", "\u00c5", "A\u030a"],
      ["", " ", "\0", "\u200b"],
      ["A", "a", "%u0041", "%25u0041"],
      [`${"x".repeat(5_000)}1`, `${"x".repeat(5_000)}2`, `${"\uD800".repeat(5_000)}1`],
    ];
    for (const group of groups) {
      const texts = group.map((text) => `${name}${text}`);
      const holders = [];
      for (const text of texts) holders.push(await holdLock(locks, text));
      const { held } = await locks.query();
      for (const text of texts) assert.deepEqual(modes(held, text), ["exclusive"]);
      for (const { release } of holders) release();
      await Promise.all(holders.map(({ released }) => released));
    }
  },
};

/** The property descriptors that Web IDL prescribes. */
const attribute = { enumerable: true, configurable: true, hasSet: false };
const operation = { enumerable: true, configurable: true, writable: true };

export const INTERFACE = {
  "LockManager is an interface object": async (locks) => {
    const LockManager = Object.getPrototypeOf(locks).constructor;
    assertInterface(LockManager, "LockManager");
    assert(locks instanceof LockManager);
    assert.equal(String(locks), "[object LockManager]");
    assert.deepEqual(Object.keys(locks), []);
    assertOperation(LockManager.prototype, "request", 2);
    assertOperation(LockManager.prototype, "query", 0);
  },

  "Lock is an interface object": async (locks, name) => {
    const lock = await locks.request(name, (one) => one);
    const Lock = Object.getPrototypeOf(lock).constructor;
    assertInterface(Lock, "Lock");
    assert.equal(String(lock), "[object Lock]");
    assertAttribute(Lock.prototype, "name");
    assertAttribute(Lock.prototype, "mode");
    assert.throws(() => {
      "use strict";
      lock.name = "other";
    }, TypeError);
    assert.deepEqual([lock.name, lock.mode], [name, "exclusive"]);
  },

  "an operation with another this is a rejection": async (locks) => {
    const { request, query } = locks;
    for (const wrong of [undefined, null, {}, 1, Object.create(Object.getPrototypeOf(locks))]) {
      await rejectsWithTypeError(request.call(wrong, "name", neverCalled));
      await rejectsWithTypeError(query.call(wrong));
    }
  },
};

function assertInterface(Interface, name) {
  assert.deepEqual([typeof Interface, Interface.name, Interface.length], ["function", name, 0]);
  assert.equal(Object.getPrototypeOf(Interface), Function.prototype);
  assert.throws(() => new Interface(), TypeError);
  assert.throws(() => Interface(), TypeError);
  const { prototype } = Interface;
  assert.equal(Object.getPrototypeOf(prototype), Object.prototype);
  const fixed = { enumerable: false, configurable: false, writable: false };
  assert.deepEqual(Object.getOwnPropertyDescriptor(Interface, "prototype"), {
    value: prototype,
    ...fixed,
  });
  assert.deepEqual(Object.getOwnPropertyDescriptor(prototype, "constructor"), {
    value: Interface,
    ...{ enumerable: false, configurable: true, writable: true },
  });
  assert.deepEqual(Object.getOwnPropertyDescriptor(prototype, Symbol.toStringTag), {
    value: name,
    ...{ enumerable: false, configurable: true, writable: false },
  });
}

function assertOperation(prototype, name, length) {
  const { value, ...flags } = Object.getOwnPropertyDescriptor(prototype, name);
  assert.deepEqual(flags, operation);
  assert.deepEqual([typeof value, value.name, value.length], ["function", name, length]);
  assert.throws(() => new value("x", () => {}), TypeError);
}

function assertAttribute(prototype, name) {
  const { get, set, ...flags } = Object.getOwnPropertyDescriptor(prototype, name);
  assert.deepEqual({ ...flags, hasSet: set !== undefined }, attribute);
  assert.deepEqual([get.name, get.length], [`get ${name}`, 0]);
  for (const wrong of [undefined, null, {}, prototype]) {
    assert.throws(() => get.call(wrong), TypeError);
  }
}

/** The behaviours, grouped by what they are about. */
export const STANDARD = {
  "the arguments": ARGUMENTS,
  "the callback": CALLBACKS,
  "the order": ORDER,
  ifAvailable: IF_AVAILABLE,
  steal: STEAL,
  signal: SIGNAL,
  query: QUERY,
  "the names": NAMES,
  "the interfaces": INTERFACE,
};
