// syncguard/testing: the contract of a backend as tests, for people who write one.

import type { CustomLockBackend } from "./backend.js";

/**
 * A behaviour that the suite tests. The title of each test ends in its name, in brackets.
 */
export type Behaviour =
  | "capabilities"
  | "acquire-result"
  | "expires-at"
  | "held-key-refused"
  | "one-winner"
  | "independent-keys"
  | "shared-locks"
  | "release-once"
  | "one-release"
  | "unknown-lock"
  | "stale-lock-id"
  | "foreign-lock-id"
  | "extend-replaces-ttl"
  | "extend-keeps-lock"
  | "extend-released"
  | "expires"
  | "expired-acquired"
  | "expired-stays-expired"
  | "expired-owner"
  | "extend-keeps-alive"
  | "extend-shortens"
  | "lookup-info"
  | "lookup-hides-secrets"
  | "lookup-nothing"
  | "lookup-expired"
  | "lookup-reads-only"
  | "fence-format"
  | "fences-grow"
  | "fences-grow-contended"
  | "fences-survive-expiry"
  | "shared-fences"
  | "any-text"
  | "similar-keys"
  | "normalized-keys"
  | "aborted-signal"
  | "aborted-in-flight"
  | "signal-listeners"
  | "invalid-key"
  | "invalid-lock-id"
  | "invalid-ttl"
  | "invalid-lookup"
  | "lock-excludes"
  | "lock-extends";

/** What to test, and with which test runner. */
export interface TestBackendOptions<B extends CustomLockBackend<any> = CustomLockBackend<any>> {
  /**
   * Returns a backend. Each test calls it, and those about several processes call it twice. All
   * backends that it returns must use the same store, so that they see the same locks: see `shared`.
   */
  create: () => B | Promise<B>;
  /**
   * Called after each test with every backend that `create` returned in it. Default: calls the
   * backend's `close()`, if it has one. Pass `() => {}` if `create` returns the same backend each time.
   */
  cleanUp?: ((backend: B) => unknown) | undefined;
  /** The name of the group of tests. Default `"the contract of a backend"`. */
  name?: string | undefined;
  /**
   * Whether every acquire returns a fence, as in the backend's `capabilities`. `false` leaves out the
   * tests of fences. Default true.
   */
  supportsFencing?: boolean | undefined;
  /**
   * Whether two backends from `create` see the same locks. `false` leaves out the tests of that, for
   * a backend that keeps its locks to itself. Default true.
   */
  shared?: boolean | undefined;
  /**
   * TTL of the locks that tests let expire, in milliseconds. Default 500. Raise it if an operation of
   * your store can take longer than about a third of that.
   */
  ttlMs?: number | undefined;
  /**
   * How long a lock may outlive its TTL, in milliseconds. Default 1000, which is
   * `TIME_TOLERANCE_MS`.
   */
  toleranceMs?: number | undefined;
  /** Limit for each test, in milliseconds. Default 20,000. Raise it if your store is slow. */
  timeoutMs?: number | undefined;
  /**
   * Behaviours that are not tested.
   *
   * @example
   * skip: ["normalized-keys"],
   */
  skip?: readonly Behaviour[] | undefined;
  /**
   * Groups tests. Default: the global `describe`, which Jest has, and vitest with `globals: true`.
   */
  describe?: ((name: string, body: () => void) => unknown) | undefined;
  /** Registers a test. Default: the global `test` or `it`. */
  test?: ((name: string, body: () => Promise<void>, timeoutMs?: number) => unknown) | undefined;
}

/**
 * Registers the contract of a backend as tests: one winner among many, fences that grow, expiry,
 * what release, extend and lookup do, abort signals, validation, and `lock()` on top of it. Works with
 * node:test, vitest and Jest. Throws "InvalidArgument" if an option is wrong or there is no runner.
 *
 * @example
 * import { describe, test } from "node:test";
 * import { testBackend } from "syncguard/testing";
 * testBackend({ describe, test, create: () => createMyBackend("test:") });
 */
export function testBackend<B extends CustomLockBackend<any>>(options: TestBackendOptions<B>): void;
