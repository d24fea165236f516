// Scheduled methods that one instance runs, with the decorators in either order.

import { Injectable } from "@nestjs/common";
import { Cron, Interval } from "@nestjs/schedule";
import { TryLock } from "syncguard/nestjs";

const counts = { cron: 0, interval: 0, skipped: 0 };
const skip = () => void (counts.skipped += 1);
const minHoldMs = 600_000;

@Injectable()
export class Jobs {
  readonly counts = counts;

  @Cron("* * * * * *")
  @TryLock({ key: "job:cron", minHoldMs, ifBusy: skip })
  async everySecond(): Promise<void> {
    counts.cron += 1;
  }

  @TryLock({ key: "job:interval", minHoldMs, ifBusy: skip })
  @Interval(500)
  async often(): Promise<void> {
    counts.interval += 1;
  }
}
