// Draws the results of the benchmarks as bar charts. The figures come from the tables that
// `npm run bench` writes to bench/results/.
import { readText } from "./files.mjs";
import { picture, text } from "./drawing.mjs";

const WIDTH = 460;
const LABEL = 172;
const BAR = 18;
const ROW = 25;

/**
 * Reads the tables of a file in bench/results/.
 * @returns {{ head: string[], rows: { name: string, cells: (number | undefined)[] }[] }[]}
 */
export function readTables(name) {
  const lines = readText(`bench/results/${name}.md`).split("\n");
  const tables = [];
  for (const [index, line] of lines.entries()) {
    if (!line.startsWith("|")) continue;
    const cells = line.split("|").slice(1, -1);
    if (/^\|[-|]+\|$/.test(line)) continue;
    if (!lines[index - 1].startsWith("|")) {
      tables.push({ head: cells.slice(1).map((cell) => cell.trim()), rows: [] });
    } else {
      const [label, ...values] = cells;
      tables.at(-1).rows.push({ name: label.trim(), cells: values.map(numberIn) });
    }
  }
  return tables;
}

/** Returns the first number of a cell such as `1,234 [1,200–1,300] ×1.5`. */
function numberIn(cell) {
  const [digits] = /^[\d.,]+/.exec(cell.trim()) ?? [];
  return digits && Number(digits.replaceAll(",", ""));
}

/**
 * Draws groups of horizontal bars. Bars of SyncGuard stand out.
 * @param {object} what
 * @param {string} what.title a sentence that also tells what the chart shows to people who do not see it
 * @param {string} what.unit
 * @param {"more" | "less"} what.better
 * @param {{ title: string, bars: { name: string, value: number }[] }[]} what.groups
 */
export function barChart({ title, unit, better, groups }) {
  const parts = [text(8, 18, title, { size: 14, weight: 600 })];
  parts.push(text(8, 37, `${unit}, ${better} is better`, { size: 12, color: "muted" }));
  let y = 54;
  for (const group of groups) {
    if (group.title) {
      parts.push(text(8, y + 12, group.title, { size: 12.5, weight: 600 }));
      y += 22;
    }
    const longest = Math.max(...group.bars.map(({ value }) => value));
    for (const { name, value } of group.bars) {
      const ours = name.startsWith("syncguard");
      const width = Math.max(2, (value / longest) * (WIDTH - LABEL - 66));
      const middle = y + BAR / 2 + 4.5;
      parts.push(
        text(LABEL - 8, middle, name, { size: 12, anchor: "end", weight: ours ? 600 : 400 }),
        `<rect x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" rx="2" fill="var(--${ours ? "a" : "muted"})"${ours ? "" : ' opacity="0.55"'}/>`,
        text(LABEL + width + 7, middle, value.toLocaleString("en-US"), {
          size: 12.5,
          weight: ours ? 600 : 400,
        }),
      );
      y += ROW;
    }
    y += 12;
  }
  return picture(title, WIDTH, y, parts);
}

/** Returns one row of a result as bars, with the best first. */
function barsOf(name, row, better) {
  const [{ head, rows }] = readTables(name);
  const { cells } = rows.find((one) => one.name.startsWith(row));
  const bars = head.map((library, i) => ({ name: library, value: cells[i] }));
  return sorted(bars, better);
}

/** Returns one column of a result as bars, with the best first. */
function columnOf(name, table, column, better) {
  const { head, rows } = readTables(name)[table];
  const index = head.findIndex((title) => title.startsWith(column));
  return sorted(
    rows.map((row) => ({ name: row.name, value: row.cells[index] })),
    better,
  );
}

const sorted = (bars, better) =>
  bars
    .filter(({ value }) => value !== undefined)
    .sort((a, b) => (better === "more" ? b.value - a.value : a.value - b.value));

const STORES = [
  ["redis", "Redis"],
  ["postgres-durable", "PostgreSQL"],
  ["sqlite-normal", 'SQLite, durability "normal"'],
];

const perStore = (row, better) =>
  STORES.map(([name, title]) => ({ title, bars: barsOf(name, row(name), better) }));

const inFlight = (name) => `throughput, ${name === "redis" ? 64 : 32} in flight`;

/** The charts of docs/benchmarks.md. */
export const CHARTS = {
  "benchmark-throughput": barChart({
    title: "Locks acquired and released, many at a time",
    unit: "Per second, with 64 (Redis) or 32 requests in flight",
    better: "more",
    groups: perStore(inFlight, "more"),
  }),
  "benchmark-latency": barChart({
    title: "Locks acquired and released, one at a time",
    unit: "Microseconds, median",
    better: "less",
    groups: perStore(() => "p50, one in flight", "less"),
  }),
  "benchmark-hand-over": barChart({
    title: "Time between one process's work and the next's",
    unit: "Milliseconds, median",
    better: "less",
    groups: [{ bars: columnOf("handover", 0, "p50", "less") }],
  }),
  "benchmark-crowd": barChart({
    title: "200 processes take turns on one key, for 5 ms each",
    unit: "Seconds until all are done (the work alone takes one)",
    better: "less",
    groups: [{ bars: columnOf("handover", 1, "all done", "less") }],
  }),
};

/** Draws one chart for each metric of a result, for the page that shows the whole result. */
export function chartsOf(name) {
  const [{ head, rows }] = readTables(name);
  return rows
    .map((row) => ({ ...row, better: betterOf(row.name) }))
    .filter(({ better, cells }) => better && cells.filter(Number.isFinite).length > 1)
    .map(({ name: title, cells, better }) => {
      const [, metric, unit] = /^(.*) \(([^)]*)\)$/.exec(title) ?? [];
      if (!metric) return undefined;
      const bars = head.map((library, i) => ({ name: library, value: cells[i] }));
      const groups = [{ bars: sorted(bars, better) }];
      return barChart({ title: metric[0].toUpperCase() + metric.slice(1), unit, better, groups });
    })
    .filter(Boolean);
}

/** Whether more or less of a metric is better, or undefined if neither is. */
function betterOf(metric) {
  if (/^server CPU/.test(metric)) return undefined;
  if (/op\/s/.test(metric)) return "more";
  return /^(p\d|mean|main-thread)/.test(metric) ? "less" : undefined;
}
