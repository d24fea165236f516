// Callers of one process take turns on one key of a distant server.

import { expect, test } from "vitest";
import { lock } from "../../js/index.js";
import { startSlowProxy } from "../fixtures/slow-proxy.js";
import { open, prefix } from "./open.js";

const DELAY_MS = 200;
const TURNS = 12;

test("a hand-over takes one round trip, because the next attempt does not wait for the release", async () => {
  const proxy = await startSlowProxy(new URL(process.env.REDIS_URL).port);
  const backend = open({ target: `redis://127.0.0.1:${proxy.port}`, keyPrefix: prefix() });
  await lock(backend, () => {}, { key: "warm" });
  proxy.delayMs = DELAY_MS;
  const entered = [];
  const turns = Array.from({ length: TURNS }, () =>
    lock(backend, ({ fence }) => entered.push([fence, performance.now()]), {
      key: "turns",
      acquisition: { timeoutMs: 30_000 },
    }),
  );
  await Promise.all(turns);
  const fences = entered.map(([fence]) => Number(fence));
  expect(fences).toEqual(Array.from({ length: TURNS }, (_, index) => index + 1));
  const took = entered.at(-1)[1] - entered[0][1];
  // With two round trips it would be between 1.5 and 2, because other reasons to try may come early.
  expect(took / (TURNS - 1) / DELAY_MS).toBeLessThan(1.35);
  await backend.close();
  proxy.stop();
});
