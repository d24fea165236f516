// Several processes with the real node-cron and a schedule of every second: every run happens once.

import { describe, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { isLong, size } from "../fixtures/size.js";
import { tables } from "../postgres/open.js";
import { prefix } from "../redis/open.js";
import { testFolder } from "../sqlite/folder.js";
import { until } from "../fixtures/wait.js";
import { createFleet } from "./fleet.js";

const SECONDS = size(4, 20);
/** Wait for so many at a time, because `until()` gives up after 20 s. */
const STEP = 5;

const folder = testFolder();
// The stores of REDIS_URL and POSTGRES_URL, and a file.
const STORES = {
  redis: () => ({ keyPrefix: prefix() }),
  postgres: tables,
  sqlite: () => ({ path: folder.file() }),
};

describe.concurrent.each(Object.entries(STORES))("%s", { timeout: 120_000 }, (name, options) => {
  const module = new URL(`../${name}/open.js`, import.meta.url).href;

  /** Runs two processes, and expects that together they do every run once. */
  async function share({ onTestFinished }, first, second, cron = "node-cron") {
    const fleet = createFleet({ module, options: options(), cron });
    onTestFinished(() => fleet.kill());
    await Promise.all([fleet.start(first), fleet.start(second)]);
    // Their clocks differ, so look at whole seconds that both have seen.
    const from = Date.now() + 1000;
    for (let done = STEP; done < SECONDS + STEP; done += STEP) {
      await fleet.seconds(Math.min(done, SECONDS) + 1, from);
    }
    const counts = fleet.runs(from, from + SECONDS * 1000);
    expect([...counts].filter(([, count]) => count !== 1 && count !== undefined)).toEqual([]);
    const done = [...counts.values()].filter((count) => count === 1);
    expect(done.length).toBeGreaterThanOrEqual(SECONDS / 2);
    expect(fleet.processes.map(({ errors }) => errors)).toEqual(["", ""]);
    return fleet;
  }

  test("with clocks that differ by 400 ms", async (context) => {
    const fleet = await share(context, { clockAheadMs: 200 }, { clockAheadMs: -200 });
    const [ahead, behind] = fleet.processes.map(({ events }) => events);
    expect(ahead.some(({ what }) => what === "ran")).toBe(true);
    expect(behind.some(({ reason }) => reason === "not-elected")).toBe(true);
  });

  test("if a process is killed while it runs the task", async (context) => {
    // Its clock is ahead, so it is elected until it dies.
    const fleet = await share(context, { clockAheadMs: 300, dieAtRun: 2 }, {});
    const [killed, other] = fleet.processes;
    expect(await killed.ended).toEqual([null, "SIGKILL"]);
    const lastRun = killed.events.findLast(({ what }) => what === "ran").at;
    const takenOver = other.events.filter(({ what, at }) => what === "ran" && at > lastRun);
    expect(takenOver).not.toEqual([]);
  });

  if (isLong) {
    test.for(["node-cron", "node-cron4.4"])("%s, with equal clocks", async (cron, context) => {
      await share(context, {}, {}, cron);
    });
  }
});

if (isLong) {
  test("while the store hangs, runs are skipped, and none happens twice", async () => {
    const server = await startRedis();
    const module = new URL("../redis/open.js", import.meta.url).href;
    const options = { target: server.url, operationTimeoutMs: 1_500 };
    const fleet = createFleet({ module, options, cron: "node-cron" });
    try {
      await Promise.all([fleet.start({ clockAheadMs: 200 }), fleet.start()]);
      const from = Date.now() + 1000;
      const happened = (wanted, count) =>
        until(() => {
          const said = fleet.processes.flatMap(({ events }) => events);
          return said.filter(wanted).length >= count;
        }, "events");
      await happened(({ what }) => what === "ran", 2);
      server.suspend();
      await happened(({ reason }) => reason === "coordinator-error", 4);
      const resumedAt = Date.now();
      server.resume();
      await happened(({ what, at }) => what === "ran" && at > resumedAt, 3);
      const counts = [...fleet.runs(from, Date.now()).values()];
      expect(counts.filter((count) => count > 1)).toEqual([]);
      expect(fleet.processes.map(({ errors }) => errors).join()).toMatch(/NetworkTimeout/);
    } finally {
      fleet.kill();
      await server.stop();
    }
  }, 120_000);
}
