// What holds for a Nest application in two instances, with every supported version of Nest.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until, untilFree } from "../fixtures/wait.js";
import { open, prefix } from "../redis/open.js";
import { startInstance } from "./nest-app.js";

/** @param {() => string} folderOf returns the folder of the compiled application */
export function nestApplication(folderOf) {
  describe("a Nest application in two instances", { timeout: 60_000 }, () => {
    const keyPrefix = prefix();
    const env = { STORE: process.env.REDIS_URL, PREFIX: keyPrefix };
    const start = (own) => startInstance(folderOf(), { ...env, ...own });
    let backend, here, there;

    beforeAll(async () => {
      backend = open({ keyPrefix });
      [here, there] = await Promise.all([start(), start()]);
    }, 60_000);
    afterAll(async () => {
      for (const instance of [here, there]) instance?.kill("SIGKILL");
      await backend.close();
    });
    const untilLocked = (key) => until(() => backend.isLocked({ key }), "the method to run");

    test("a method with @Lock runs in one of them at a time, and gets the lock", async () => {
      const paid = [here, there, here].map(({ post }) => post("orders/7/pay?ms=50"));
      const answers = await Promise.all(paid);
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
      const bodies = answers.map(({ body }) => body);
      expect(bodies).toEqual(Array(3).fill(expect.objectContaining({ paid: "7", held: true })));
      expect(bodies.map(({ fence }) => Number(fence)).sort()).toEqual([1, 2, 3]);
    });

    test("a method with @TryLock is not run while the lock is held", async () => {
      const first = here.post("orders/8/pay?ms=2000");
      await untilLocked("order:8");
      expect(await there.post("orders/8/pay-once")).toMatchObject({
        status: 409,
        body: { message: "Order 8 is being paid" },
      });
      expect(await first).toMatchObject({ status: 201 });
      expect(await there.post("orders/8/pay-once")).toMatchObject({ status: 201 });
    });

    test("the application's own errors arrive as they are", async () => {
      expect(await here.post("cards/4/charge")).toEqual({ status: 402, body: { refused: "4" } });
      await untilFree(backend, "card");
    });

    test("@Lock that waited for too long calls ifBusy", async () => {
      const { release } = await backend.acquire({ key: "card", ttlMs: 60_000 });
      expect(await here.post("cards/4/charge")).toEqual({ status: 201, body: { refused: "busy" } });
      await release();
    });

    test("a provider of one request keeps its request", async () => {
      const users = ["ada", "grace", "edsger"];
      const answers = await Promise.all(
        users.map((user) => here.post("basket/apple", { "x-user": user })),
      );
      expect(answers.map(({ body }) => body.user)).toEqual(users);
    });

    test("a method keeps what other decorators attached, its name and its length", async () => {
      expect(await here.post("route/a/2")).toEqual({ status: 202, body: { item: "a", ms: "2" } });
      const { body } = await here.get("jobs");
      expect(body.method).toEqual(["often", "route", 2]);
    });

    test("a scheduled method runs in one instance", async () => {
      const counts = await until(async () => {
        const answers = await Promise.all([here.get("jobs"), there.get("jobs")]);
        const bodies = answers.map(({ body }) => body);
        return bodies.every(({ skipped }) => skipped >= 3) && bodies;
      }, "both instances to have skipped");
      expect(counts[0].cron + counts[1].cron).toBe(1);
      expect(counts[0].interval + counts[1].interval).toBe(1);
    });

    test("the health indicator reports whether the store answers", async () => {
      const up = { status: "ok", details: { locks: { status: "up" } } };
      expect(await here.get("health")).toMatchObject({ status: 200, body: up });
      const lost = await start({ STORE: "redis://127.0.0.1:1" });
      const answer = await lost.get("health");
      expect(answer).toMatchObject({ status: 503, body: { status: "error" } });
      const { locks } = answer.body.error;
      expect(locks).toEqual({ status: "down", message: expect.stringMatching(/\w/) });
      lost.kill("SIGKILL");
    });

    test("closing answers requests, releases what is held and ends the process", async () => {
      const instance = await start();
      expect(await instance.post("keep/forgotten")).toMatchObject({ status: 201 });
      const last = instance.post("orders/9/pay?ms=1000");
      await untilLocked("order:9");
      instance.kill("SIGTERM");
      expect(await last).toMatchObject({ status: 201, body: { held: true } });
      const { end, errors } = await instance.ended;
      expect(end).toBe("SIGTERM");
      // @nestjs/schedule before version 5 stops its timers only after the locks are closed.
      expect(errors.replace(/^.*\[Scheduler\] LockError: This backend is closed.*\n/gm, "")).toBe(
        "",
      );
      // Its lease of 30 s is not over.
      expect(await backend.isLocked({ key: "forgotten" })).toBe(false);
    });
  });
}
