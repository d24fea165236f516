// Formats the results as Markdown, with contestants as rows.
import { cpus } from "node:os";
import { rowsTable } from "../lib/rows.mjs";
import { quantile, summary } from "../lib/statistics.mjs";
import { number, ratio } from "../lib/table.mjs";
import { WISHES } from "./measure.mjs";

const HEADER = [
  ...["", "turns/s", "CPU per turn (ms)", "hand-over p50 (ms)", "p90 (ms)"],
  ...["CPU of a waiter (% of a core)", "commands/s of a waiter"],
];

const median = (list, field) => quantile(list.map(field), 0.5);

function cells({ turns, samples, commandsPerSecond }) {
  return [
    { value: median(turns, (one) => one.throughput), better: "higher" },
    { value: median(turns, (one) => one.cpuPerTurn), better: "lower" },
    { value: median(samples, (one) => one.ms), better: "lower" },
    {
      value: quantile(
        samples.map((one) => one.ms),
        0.9,
      ),
      better: "lower",
    },
    { value: median(samples, (one) => one.cpu), better: "lower" },
    { value: commandsPerSecond, better: "lower" },
  ];
}

/** Returns the chart. A line shows the quartiles. */
export function bars(results) {
  const kinds = Object.keys(WISHES);
  const names = [...new Set(results.map(({ name }) => name))];
  const of = (name, kind) => results.find((one) => one.name === name && one.kind === kind);
  return {
    title: "Sharing: 50 workers in 4 processes on Redis",
    metrics: kinds.flatMap((kind) => [
      { title: `Turns, ${WISHES[kind].title}`, unit: "/s", better: "higher" },
      { title: `Hand-over, ${WISHES[kind].title}`, unit: "ms", better: "lower" },
    ]),
    rows: names.map((name) => ({
      name,
      cells: kinds.flatMap((kind) => {
        const measured = of(name, kind);
        if (!measured) return [undefined, undefined];
        const { turns, samples } = measured;
        return [summary(turns.map((one) => one.throughput)), summary(samples.map((one) => one.ms))];
      }),
    })),
  };
}

export function report(results) {
  const sections = Object.entries(WISHES).flatMap(([kind, { title }]) => {
    const measured = results.filter((one) => one.kind === kind);
    const [ours, ...others] = measured.map(cells);
    const rows = measured.map(({ name }, at) => [
      name,
      ...cells(measured[at]).map(({ value, better }, column) => {
        if (at === 0) return number(value);
        const times = ratio(ours[column].value, value, better);
        return `${number(value)} (×${number(times)})`;
      }),
    ]);
    const { turns, samples } = measured[0];
    return [
      `## ${title[0].toUpperCase()}${title.slice(1)}`,
      "",
      `Median of ${turns.length} rounds of taking turns, and of ${samples.length} hand-overs${others.length ? "; × is how many times better syncguard is" : ""}.`,
      "",
      ...rowsTable(HEADER, rows),
      "",
    ];
  });
  return [
    "# Sharing a key, and several keys, on Redis",
    "",
    `Each library has its default settings, except that none gives up. Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}, the server on the same machine.`,
    "",
    "50 workers in 4 processes take turns, with 1 ms of work each. CPU per turn is that of all processes. For the hand-over, another process held the key or keys for about 1.5 s. CPU of a waiter is the use of all threads of the waiting process while it waited. Commands are those that a waiter sends to the server, including its first attempt.",
    "",
    "`redis-semaphore` locks one key at a time, so it takes several keys one after another, in the same order everywhere. (Its multi variants take several permits of one semaphore, or one lock on several servers.) `redlock` locks several resources in one script; they have to be on one node of a cluster.",
    "",
    ...sections,
  ].join("\n");
}
