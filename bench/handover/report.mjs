// Formats the results as Markdown, with contestants as rows.
import { cpus } from "node:os";
import { quantile, summary } from "../lib/statistics.mjs";
import { rowsTable } from "../lib/rows.mjs";
import { number } from "../lib/table.mjs";

/** Returns the chart. A line ends at p90. */
export function bars({ rounds, crowds, processes }) {
  const waits = rounds.map(({ name, samples }) => {
    const ms = samples.filter(({ failed }) => !failed).map((sample) => sample.ms);
    const median = quantile(ms, 0.5);
    return { name, wait: { median, low: median, high: quantile(ms, 0.9) } };
  });
  const drained = (name) => {
    const runs = crowds.find((crowd) => crowd.name === name)?.runs;
    return runs && summary(runs.map(({ drainMs }) => drainMs / 1000));
  };
  return {
    title: "Waiting: how soon another process runs",
    metrics: [
      { title: "From the end of the work to the start of the next", unit: "ms", better: "lower" },
      { title: `${processes} processes, 5 ms of work each`, unit: "s", better: "lower" },
    ],
    rows: waits.map(({ name, wait }) => ({ name, cells: [wait, drained(name)] })),
  };
}

export function report({ rounds, crowds, processes }) {
  const waits = rounds.map(({ name, samples, commandsPerSecond }) => {
    const ran = samples.filter(({ failed }) => !failed);
    const ms = ran.map((sample) => sample.ms);
    const cpu = ran.map((sample) => sample.cpu);
    return [
      name,
      ...[quantile(ms, 0.5), quantile(ms, 0.9), Math.max(...ms), quantile(cpu, 0.5)].map(number),
      commandsPerSecond === undefined ? "–" : number(commandsPerSecond),
      number(samples.length - ran.length),
    ];
  });
  const drains = crowds.map(({ name, runs }) => {
    const median = (field) => quantile(runs.map(field), 0.5);
    return [
      name,
      number(median(({ drainMs }) => drainMs / 1000)),
      number(median(({ timeouts }) => timeouts)),
      number(median(({ longestMs }) => longestMs / 1000)),
    ];
  });
  const { length: count } = rounds[0].samples;
  return [
    "# Waiting: how soon another process runs",
    "",
    `Each library has its default settings. Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}, servers on the same machine.`,
    "",
    "## From the end of the work under a lock to the start of the next process's",
    "",
    `The lock was held for about 1.5 s. ${count} waits each. CPU is the use of all threads of the waiting process while it waited. Commands are those that a waiter sends to the server, including its first attempt.`,
    "",
    ...rowsTable(
      ["", "p50 (ms)", "p90 (ms)", "max (ms)", "CPU (% of a core)", "commands/s", "gave up"],
      waits,
    ),
    "",
    `## ${processes} processes want one key at the same moment, for 5 ms of work each`,
    "",
    `Median of ${crowds[0]?.runs.length} runs. The work alone takes ${number((processes * 5) / 1000)} s.`,
    "",
    ...rowsTable(["", "all done (s)", "gave up", "longest wait (s)"], drains),
    "",
  ].join("\n");
}
