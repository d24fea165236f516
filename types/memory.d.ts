// syncguard/memory: locks inside one process, for tests and single-process programs.

import type { ConnectionOptions, FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { ManagedLock } from "./lock.js";

/** What the memory backend can do. */
export interface MemoryCapabilities extends FencingCapabilities {
  backend: "memory";
  timeAuthority: "server";
}

/** Timeouts have no effect: they are there for programs that pass the same to any backend. */
export interface MemoryBackendOptions extends ConnectionOptions {
  /**
   * "javascript": its time is `Date.now()` and its timers are `setTimeout`, so that fake timers in
   * your tests drive expiry, waits and heartbeats. Default "system".
   *
   * @example
   * vi.useFakeTimers();
   * const backend = createMemoryBackend({ clock: "javascript" });
   */
  clock?: "system" | "javascript" | undefined;
}

/**
 * A backend with locks of its own.
 *
 * @example
 * const backend = createMemoryBackend();
 */
export function createMemoryBackend(
  options?: MemoryBackendOptions,
): ManagedLockBackend<MemoryCapabilities>;
export function createMemoryBackend(
  target: string | URL | undefined,
  options?: MemoryBackendOptions,
): ManagedLockBackend<MemoryCapabilities>;

/** `lock` with locks of its own. */
export function createLock(options?: MemoryBackendOptions): ManagedLock<MemoryCapabilities>;
export function createLock(
  target: string | URL | undefined,
  options?: MemoryBackendOptions,
): ManagedLock<MemoryCapabilities>;
