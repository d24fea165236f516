// What the types of the decorators refuse.

import { Lock, SyncGuardModule, TryLock } from "syncguard/nestjs";

export class Methods {
  @TryLock({ key: "maybe" })
  async maybe(): Promise<string | undefined> {
    return "done";
  }

  @TryLock({ key: "void" })
  async nothing(): Promise<void> {}

  @TryLock({ key: "busy", ifBusy: () => "busy" })
  async busy(): Promise<string> {
    return "done";
  }

  // If the lock is busy, the caller gets undefined, which is no string.
  // @ts-expect-error
  @TryLock({ key: "always" })
  async always(): Promise<string> {
    return "done";
  }

  // The key is a function of other arguments than the method has.
  // @ts-expect-error
  @Lock({ key: (id: string, region: string) => `${region}:${id}` })
  async other(id: string, count: number) {
    return id.repeat(count);
  }

  // The caller would get a promise.
  // @ts-expect-error
  @Lock({ key: "sync" })
  sync() {
    return 1;
  }

  // @ts-expect-error
  @Lock({ name: "no key" })
  async keyless() {}

  // A single attempt does not wait.
  // @ts-expect-error
  @TryLock({ key: "once", acquisition: { timeoutMs: 5 } })
  async once() {}
}

// @ts-expect-error
SyncGuardModule.forRoot(process.env.REDIS_URL);
// @ts-expect-error
SyncGuardModule.forRootAsync({ inject: ["URL"] });
