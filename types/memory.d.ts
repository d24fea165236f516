// syncguard/memory: locks inside one process.

import type { AutoLock, BackendHooks, FencingCapabilities, ManagedLockBackend } from "../index.js";

export interface MemoryCapabilities extends FencingCapabilities {
  backend: "memory";
  timeAuthority: "server";
}

export interface MemoryBackendOptions extends BackendHooks {}

/** Each backend has its own locks. */
export function createMemoryBackend(
  options?: MemoryBackendOptions,
): ManagedLockBackend<MemoryCapabilities>;
export function createMemoryBackend(
  target: string | undefined,
  options?: MemoryBackendOptions,
): ManagedLockBackend<MemoryCapabilities>;

export function createLock(options?: MemoryBackendOptions): AutoLock<MemoryCapabilities>;
export function createLock(
  target: string | undefined,
  options?: MemoryBackendOptions,
): AutoLock<MemoryCapabilities>;
