import { afterAll, expect, test } from "vitest";
import { until } from "../fixtures/wait.js";
import { collections, open } from "./open.js";

const names = collections();
const backends = [open(names), open(names), open(names)];
afterAll(() => Promise.all(backends.map((backend) => backend.close())));
const backend = (n) => backends[n % backends.length];
const times = (count, make) => Promise.all(Array.from({ length: count }, (_, n) => make(n)));

test.each([10, 50])("%i contenders, one winner", async (contenders) => {
  const key = `contended-by-${contenders}`;
  const results = await times(contenders, (n) => backend(n).acquire({ key, ttlMs: 30_000 }));
  expect(results.filter(({ ok }) => ok)).toHaveLength(1);
  expect(results.filter(({ reason }) => reason === "locked")).toHaveLength(contenders - 1);
});

test("20 concurrent acquisitions lose no fence", async () => {
  const fences = await times(20, async (n) => {
    const held = await until(async () => {
      const result = await backend(n).acquire({ key: "fence", ttlMs: 30_000 });
      return result.ok && result;
    });
    expect(await held.release()).toEqual({ ok: true });
    return held.fence;
  });
  const expected = Array.from({ length: 20 }, (_, n) => String(n + 1).padStart(15, "0"));
  expect(fences.sort()).toEqual(expected);
});
