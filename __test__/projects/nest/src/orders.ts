// Methods that run under a lock, in a service and in a provider of each request.

import { ConflictException, Inject, Injectable, Scope } from "@nestjs/common";
import { REQUEST } from "@nestjs/core";
import type { LockContext } from "syncguard";
import { CurrentLock, Lock, LockService, TryLock } from "syncguard/nestjs";
import { setTimeout as sleep } from "node:timers/promises";

export class CardRefused extends Error {
  constructor(readonly card: string) {
    super("The card was refused");
  }
}

@Injectable()
export class OrdersService {
  constructor(private readonly locks: LockService) {}

  @Lock({
    key: (id: string) => `order:${id}`,
    acquisition: { timeoutMs: 20_000 },
  })
  async pay(id: string, ms: number, @CurrentLock() lock?: LockContext) {
    await sleep(ms);
    if (lock === undefined) throw new Error("The lock was not passed");
    return { paid: id, fence: lock.fence, held: lock.isHeld() };
  }

  @TryLock({
    key: (id: string) => `order:${id}`,
    ifBusy: (id: string) => {
      throw new ConflictException(`Order ${id} is being paid`);
    },
  })
  async payOnce(id: string, ms: number) {
    await sleep(ms);
    return { paid: id };
  }

  @Lock({ key: "card", acquisition: { timeoutMs: 50 }, ifBusy: () => ({ refused: "busy" }) })
  async charge(card: string): Promise<object> {
    throw new CardRefused(card);
  }

  /** Kept until the application closes. */
  async keep(key: string) {
    const { fence } = await this.locks.hold({ key });
    return { fence };
  }
}

/** Nest makes one for each request. */
@Injectable({ scope: Scope.REQUEST })
export class Basket {
  constructor(@Inject(REQUEST) private readonly request: { headers: Record<string, string> }) {}

  @Lock({ key: (item: string) => `item:${item}` })
  async add(item: string) {
    await sleep(10);
    return { item, user: this.request.headers["x-user"] };
  }
}
