// syncguard/nestjs: locks for NestJS applications.

import type { DynamicModule, FactoryProvider, ModuleMetadata } from "@nestjs/common";
import type { BackendCapabilities, CustomLockBackend, FencingCapabilities } from "./backend.js";
import type { HeldLock, LeadConfig, LockConfig, LockContext, TryLockResult } from "./lock.js";

/** Options of `SyncGuardModule`. Without `url` and `backend`, the default backend is opened. */
export interface SyncGuardOptions {
  /** The URL of a backend, as `createBackend()` takes it. */
  url?: string | URL | undefined;
  /** The options of the backend that `url` opens, such as `keyPrefix`. */
  options?: object | undefined;
  /** A backend of your own, instead of `url`. It is closed with the application, too. */
  backend?: CustomLockBackend<any> | undefined;
  /**
   * How long locks may still be held when the application closes, in milliseconds. After that they are
   * lost ("LockLost") and released. Default 10,000.
   */
  closeTimeoutMs?: number | undefined;
}

/** Options of `SyncGuardModule.forRootAsync()`. */
export interface SyncGuardAsyncOptions extends Pick<ModuleMetadata, "imports"> {
  /** What `useFactory` gets as arguments. */
  inject?: FactoryProvider["inject"];
  /** Returns a URL or options, or a promise of them. */
  useFactory: (
    ...args: any[]
  ) => string | URL | SyncGuardOptions | Promise<string | URL | SyncGuardOptions>;
}

/**
 * Provides `LockService` and `SyncGuardHealthIndicator` to all modules of the application. Import it
 * once, in the root module. When the application closes, held locks are released and the backend is
 * closed.
 */
export class SyncGuardModule {
  /**
   * Opens the backend of a URL. Without arguments it uses the environment variable SYNCGUARD_URL, or
   * else the host's SQLite file.
   *
   * @example
   * @Module({ imports: [SyncGuardModule.forRoot("redis://cache.internal:6379")] })
   * export class AppModule {}
   */
  static forRoot(): DynamicModule;
  static forRoot(target: string | URL | SyncGuardOptions): DynamicModule;
  /**
   * Opens the backend whose URL or options a factory returns.
   *
   * @example
   * SyncGuardModule.forRootAsync({
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => config.getOrThrow<string>("REDIS_URL"),
   * })
   */
  static forRootAsync(options: SyncGuardAsyncOptions): DynamicModule;
}

/**
 * `lock` and its variants on the application's backend.
 *
 * @example
 * constructor(private readonly locks: LockService) {}
 *
 * pay(order: Order) {
 *   return this.locks.lock(({ fence }) => this.charge(order, fence), { key: `order:${order.id}` });
 * }
 */
export class LockService<C extends BackendCapabilities = FencingCapabilities> {
  private constructor();
  /** The backend: for `listLocks`, `owns` and others. The application closes it. */
  readonly backend: CustomLockBackend<C>;
  /** Waits for the lock, runs fn while it is held, and returns fn's result. */
  lock<T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LockConfig): Promise<T>;
  /** Like `lock`, but tries once and does not wait. */
  tryLock<T>(
    fn: (context: LockContext<C>) => Promise<T> | T,
    config: LockConfig,
  ): Promise<TryLockResult<T>>;
  /** Waits for the lock and holds it until its scope ends. */
  hold(config: LockConfig): Promise<HeldLock<C>>;
  /** Like `hold`, but does not wait: returns `null` if somebody else holds the lock. */
  tryHold(config: LockConfig): Promise<HeldLock<C> | null>;
  /** Leader election: see `lead`. */
  lead<T>(fn: (context: LockContext<C>) => Promise<T> | T, config: LeadConfig): Promise<T>;
  /** Called by Nest: closes the backend. */
  onApplicationShutdown(): Promise<void>;
}

/** The options of `@TryLock()`: those of `tryLock`, with a key that can depend on the arguments. */
export interface TryLockOptions<Args extends unknown[] = any[]> extends Omit<
  LockConfig,
  "key" | "signal" | "acquisition" | "onEvent"
> {
  /** What to lock: a string, or a function of the method's arguments that returns one. */
  key: string | ((...args: Args) => string);
  /**
   * Called with the method's arguments if the lock is busy, instead of the method. Its result is
   * returned to the caller; throw here to answer with an error of your own.
   *
   * @example
   * ifBusy: () => { throw new ConflictException("This order is being paid"); }
   */
  ifBusy?: ((...args: Args) => unknown) | undefined;
}

/** The options of `@Lock()`: those of `lock`, with a key that can depend on the arguments. */
export interface LockOptions<Args extends unknown[] = any[]>
  extends TryLockOptions<Args>, Pick<LockConfig, "acquisition"> {}

/** A decorator for methods that return a promise and take the arguments that the key depends on. */
export type LockDecorator<Args extends unknown[], Result = any> = <
  M extends (...args: any[]) => Promise<any>,
>(
  target: object,
  name: string | symbol,
  descriptor: Parameters<M> extends [...Args, ...unknown[]]
    ? Result extends Awaited<ReturnType<M>>
      ? TypedPropertyDescriptor<M>
      : never
    : never,
) => TypedPropertyDescriptor<M>;

/**
 * Runs the method while a lock is held. Callers wait for their turn; if the lock stays busy, they get
 * "AcquisitionTimeout", or what `ifBusy` returns or throws.
 *
 * @example
 * @Lock({ key: (orderId: string) => `order:${orderId}` })
 * async pay(orderId: string) {}
 */
export function Lock<Args extends any[] = any[]>(options: LockOptions<Args>): LockDecorator<Args>;

/**
 * Runs the method if the lock is free. Otherwise the method is not run, and its caller gets what
 * `ifBusy` returns or throws; without `ifBusy`, `undefined`.
 *
 * @example
 * @Cron("0 3 * * *")
 * @TryLock({ key: "report", minHoldMs: 60_000 })
 * async sendReport() {}
 */
export function TryLock<Args extends any[] = any[]>(
  options: TryLockOptions<Args> & { ifBusy: (...args: any[]) => unknown },
): LockDecorator<Args>;
export function TryLock<Args extends any[] = any[]>(
  options: TryLockOptions<Args>,
): LockDecorator<Args, undefined>;

/**
 * Marks the parameter of a method with `@Lock` or `@TryLock` that receives the lock: its fence, its
 * signal and more. Callers leave the argument out.
 *
 * @example
 * @Lock({ key: (orderId: string) => `order:${orderId}` })
 * async pay(orderId: string, @CurrentLock() lock?: LockContext) {
 *   await this.orders.setPaid(orderId, lock!.fence);
 * }
 */
export function CurrentLock(): (target: object, name: string | symbol, index: number) => void;

/**
 * A health indicator for `@nestjs/terminus`.
 *
 * @example
 * @Get() @HealthCheck()
 * check() {
 *   return this.health.check([() => this.locks.pingCheck("locks")]);
 * }
 */
export class SyncGuardHealthIndicator {
  private constructor();
  /**
   * Makes one round trip to the store. The result is "down" if it fails or takes longer than
   * `timeoutMs` (default 1000).
   */
  pingCheck<Name extends string>(
    name: Name,
    options?: { timeoutMs?: number | undefined },
  ): Promise<Record<Name, { status: "up" | "down"; message?: string }>>;
}
