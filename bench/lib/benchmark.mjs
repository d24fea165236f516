// Runs contestants in alternating rounds, so that a slow minute of the machine affects all of them, and
// reports medians with quartiles over the rounds.
import { keep } from "./keep.mjs";
import { manyInFlight, oneInFlight, oneKey } from "./load.mjs";
import { progress } from "./progress.mjs";
import { summary } from "./statistics.mjs";
import { table } from "./table.mjs";

/**
 * @typedef {object} Contestant
 * @property {string} name
 * @property {boolean} [reference] whether the others are compared with this one
 * @property {() => Promise<void>} [setup]
 * @property {(key: string) => Promise<void>} acquireRelease throws if it does not get the lock
 * @property {(key: string, fn: () => Promise<void>) => Promise<void>} [runUnderLock]
 * @property {() => Promise<void>} [teardown]
 *
 * @typedef {object} Scenario
 * @property {string} name
 * @property {(contestant: Contestant) => boolean} [applies]
 * @property {(contestant: Contestant, ms: number) => Promise<Record<string, number>>} run
 *   runs one round of about `ms`; the result has one number per metric
 * @property {Array<{ id: string, title: string, unit: string, better: "lower" | "higher" | "none" }>} metrics
 */

/** The scenarios that every backend has. */
export function standardScenarios({ inFlight = [16, 64, 256], workers = 50, serverPid } = {}) {
  const many = inFlight.map((count) => ({
    name: `${count} in flight`,
    run: async (contestant, ms) => {
      const { throughput, cpu, serverShare } = await manyInFlight(contestant, count, ms, serverPid);
      const id = (name) => `${name}${count}`;
      return {
        [id("throughput")]: throughput,
        [id("cpu")]: cpu,
        ...(serverPid && { [id("server")]: serverShare }),
      };
    },
    metrics: [
      metric(`throughput${count}`, `throughput, ${count} in flight`, "op/s", "higher"),
      metric(`cpu${count}`, `main-thread CPU per op, ${count} in flight`, "µs", "lower"),
      ...(serverPid
        ? [metric(`server${count}`, `server CPU, ${count} in flight`, "%", "none")]
        : []),
    ],
  }));
  return [
    {
      name: "one in flight",
      run: oneInFlight,
      metrics: [
        metric("p50", "p50, one in flight", "µs", "lower"),
        metric("p99", "p99, one in flight", "µs", "lower"),
        metric("mean", "mean, one in flight", "µs", "lower"),
        metric("cpu", "main-thread CPU per op, one in flight", "µs", "lower"),
      ],
    },
    ...many,
    {
      name: `${workers} workers on one key`,
      applies: (contestant) => contestant.runUnderLock !== undefined,
      run: (contestant, ms) => oneKey(contestant, workers, ms),
      metrics: [metric("throughput", `${workers} workers on one key`, "op/s", "higher")],
    },
  ].map((scenario) => ({
    ...scenario,
    metrics: scenario.metrics.map((one) => ({
      ...one,
      id: `${scenario.name}/${one.id}`,
      key: one.id,
    })),
  }));
}

export function metric(id, title, unit, better) {
  return { id, title, unit, better };
}

/**
 * Runs everything and writes `bench/results/<name>.md` and `.svg`.
 * `--quick` on the command line makes it a short run for a first impression.
 */
export async function benchmark({ name, title, contestants, scenarios, rounds = 7, ms = 1000 }) {
  if (process.argv.includes("--quick")) [rounds, ms] = [3, 200];
  const values = new Map();
  const slot = (contestant, { id }) => {
    const key = `${contestant.name}\n${id}`;
    if (!values.has(key)) values.set(key, []);
    return values.get(key);
  };
  const ready = [];
  try {
    for (const contestant of contestants) {
      ready.push(contestant);
      await contestant.setup?.();
      // Connect and warm up the code before measuring.
      await manyInFlight(contestant, 8, ms / 2);
    }
    const turns = plan(contestants, scenarios, rounds);
    const bar = progress(name, turns.length);
    for (const { contestant, scenario } of turns) {
      bar.step(`${scenario.name}: ${contestant.name}`);
      const result = await scenario.run(contestant, ms);
      for (const one of scenario.metrics) slot(contestant, one).push(result[one.key ?? one.id]);
    }
    bar.end();
  } finally {
    for (const contestant of ready) await contestant.teardown?.();
  }
  const rows = contestants.map((contestant) => ({
    name: contestant.name,
    reference: contestant.reference,
    cells: scenarios.flatMap((scenario) =>
      scenario.metrics.map((one) => {
        const measured = values.get(`${contestant.name}\n${one.id}`);
        return measured && summary(measured);
      }),
    ),
  }));
  const metrics = scenarios.flatMap((scenario) => scenario.metrics);
  keep(name, table({ title, metrics, rows, rounds, ms }), { title, metrics, rows });
  return { metrics, rows };
}

/** Runs each scenario in each round, and starts each time with another contestant. */
function plan(contestants, scenarios, rounds) {
  const turns = [];
  for (let round = 0; round < rounds; round++) {
    for (const scenario of scenarios) {
      for (let i = 0; i < contestants.length; i++) {
        const contestant = contestants[(round + i) % contestants.length];
        if (scenario.applies?.(contestant) ?? true) turns.push({ contestant, scenario });
      }
    }
  }
  return turns;
}
