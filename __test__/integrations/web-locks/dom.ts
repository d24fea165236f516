// Code that was written for `navigator.locks`, with the types of TypeScript's lib.dom.

import { createLockManager } from "syncguard/web-locks";

export const locks: LockManager = createLockManager("memory:");

export async function program(manager: LockManager): Promise<number> {
  const controller = new AbortController();
  const options: LockOptions = { mode: "exclusive", signal: controller.signal };
  const callback: LockGrantedCallback<Promise<number>> = async (lock) => lock?.name.length ?? 0;
  const { held }: LockManagerSnapshot = await manager.query();
  const infos: LockInfo[] = held ?? [];
  return infos.length + (await manager.request("name", options, callback));
}

export const lock: Promise<Lock | null> = locks.request("name", (one) => one);
export const result = program(createLockManager("memory:"));
export const { request, query }: Pick<LockManager, "request" | "query"> = createLockManager();
