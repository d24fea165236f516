// @Lock and @TryLock: methods that run while a lock is held.

import { Inject } from "@nestjs/common";
import { invalidArgument, LockError } from "../base/errors.js";
import { LockService } from "./service.js";

/** @typedef {(...args: any[]) => any} Method */
/** @typedef {{ key: string | Method, ifBusy?: Method | undefined }} Options also those of a lock */
/** @typedef {(service: LockService, fn: Method, config: any) => Promise<{ ok: boolean, value?: any }>} Form */

/** The property into which Nest injects the service. Each application has its own. */
const SERVICE = Symbol("syncguard:LockService");

/** The positions of the parameters that receive the lock's context, by class and method.
 * @type {WeakMap<object, Map<string | symbol, number>>} */
const positions = new WeakMap();

/** @param {any} options */
export function Lock(options) {
  return decorator("@Lock()", options, async (service, fn, config) => {
    let hasStarted = false;
    const run = (/** @type {any} */ context) => {
      hasStarted = true;
      return fn(context);
    };
    try {
      return { ok: true, value: await service.lock(run, config) };
    } catch (error) {
      // An error of the method itself is always thrown, even one with the same code.
      const isBusy = error instanceof LockError && error.code === "AcquisitionTimeout";
      if (hasStarted || !isBusy || options.ifBusy === undefined) throw error;
      return { ok: false };
    }
  });
}

/** @param {any} options */
export function TryLock(options) {
  return decorator("@TryLock()", options, (service, fn, config) => service.tryLock(fn, config));
}

/** @returns {(target: any, name: any, index: number) => void} */
export function CurrentLock() {
  return (target, name, index) => {
    let ofClass = positions.get(target);
    if (ofClass === undefined) positions.set(target, (ofClass = new Map()));
    ofClass.set(name, index);
  };
}

/**
 * @param {string} what
 * @param {Options} options
 * @param {Form} form
 */
function decorator(what, options, form) {
  checkOptions(what, options);
  const { key, ifBusy, ...config } = options;
  /**
   * @param {any} target
   * @param {string | symbol} name
   * @param {TypedPropertyDescriptor<any>} [descriptor]
   */
  return (target, name, descriptor) => {
    const method = descriptor?.value;
    if (typeof method !== "function" || typeof target !== "object") {
      throw invalidArgument(
        `${what} is not on an instance method: it cannot decorate anything else`,
      );
    }
    const title = `${target.constructor.name}.${String(name)}`;
    const position = positions.get(target)?.get(name);
    Inject(LockService)(target, SERVICE);

    /** @this {any} */
    const locked = async function (/** @type {any[]} */ ...args) {
      const service = this?.[SERVICE];
      if (service === undefined) throw notInjected(what, title);
      const run = (/** @type {any} */ context) => {
        if (position !== undefined) args[position] = context;
        return checkResult(what, title, method.apply(this, args));
      };
      const { ok, value } = await form(service, run, {
        name: title,
        ...config,
        key: typeof key === "function" ? key.apply(this, args) : key,
      });
      return ok ? value : ifBusy?.apply(this, args);
    };
    return { ...descriptor, value: withPropertiesOf(method, locked) };
  };
}

/**
 * Copies the name and the length of a method, and what other decorators have attached to it.
 * @param {Method} method
 * @param {Method} locked
 */
function withPropertiesOf(method, locked) {
  Object.defineProperties(locked, Object.getOwnPropertyDescriptors(method));
  const { getOwnMetadataKeys, getOwnMetadata, defineMetadata } = /** @type {any} */ (Reflect);
  for (const key of getOwnMetadataKeys(method)) {
    defineMetadata(key, getOwnMetadata(key, method), locked);
  }
  return locked;
}

/**
 * Refuses a result that does its work only after the method has returned and the lock was released.
 * @param {string} what
 * @param {string} title
 * @param {any} result
 */
function checkResult(what, title, result) {
  if (typeof result?.subscribe !== "function" || typeof result.then === "function") return result;
  throw invalidArgument(
    `${title} returned an Observable, which would do its work after ${what} has released the lock. ` +
      "Return a promise: lastValueFrom(observable)",
  );
}

/**
 * @param {string} what
 * @param {any} options
 */
function checkOptions(what, options) {
  const kind = typeof options?.key;
  if (kind !== "string" && kind !== "function") {
    throw invalidArgument(
      `${what} got no key. Pass { key }: a string, or a function of the method's arguments`,
    );
  }
  if (options.ifBusy !== undefined && typeof options.ifBusy !== "function") {
    throw invalidArgument(`The option ifBusy of ${what} must be a function`);
  }
}

/**
 * @param {string} what
 * @param {string} title
 */
function notInjected(what, title) {
  return invalidArgument(
    `${title} has ${what} but no LockService, because Nest did not create this instance. ` +
      "List the class in the providers or controllers of a module, and do not create it with `new`",
  );
}
