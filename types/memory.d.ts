// syncguard/memory: locks inside one process, for tests and single-process programs.

import type { ConnectionOptions, FencingCapabilities, ManagedLockBackend } from "./backend.js";
import type { ManagedLock } from "./lock.js";

/** What the memory backend can do. */
export interface MemoryCapabilities extends FencingCapabilities {
  backend: "memory";
  timeAuthority: "server";
}

/**
 * Options of the memory backend. Timeouts have no effect; they exist so that you can pass the same
 * options to any backend.
 */
export interface MemoryBackendOptions extends ConnectionOptions {
  /**
   * "javascript" takes the time from `Date.now()` and timers from `setTimeout`, so that fake timers in
   * your tests control expiry, waits and heartbeats. Default "system".
   *
   * @example
   * vi.useFakeTimers();
   * const backend = createMemoryBackend({ clock: "javascript" });
   */
  clock?: "system" | "javascript" | undefined;
}

/**
 * Creates a backend that keeps its locks in memory. No other backend sees them.
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

/** Returns `lock`, bound to a memory backend of its own. */
export function createLock(options?: MemoryBackendOptions): ManagedLock<MemoryCapabilities>;
export function createLock(
  target: string | URL | undefined,
  options?: MemoryBackendOptions,
): ManagedLock<MemoryCapabilities>;
