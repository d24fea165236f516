// syncguard/web-locks: the interface of `navigator.locks`, across processes and machines.

export { createLockManager } from "./web-locks/create.js";
export { Lock, LockManager } from "./web-locks/interface.js";
