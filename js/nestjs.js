// syncguard/nestjs: locks for NestJS applications.

export { CurrentLock, Lock, TryLock } from "./nestjs/decorators.js";
export { SyncGuardHealthIndicator } from "./nestjs/health.js";
export { SyncGuardModule } from "./nestjs/module.js";
export { LockService } from "./nestjs/service.js";
