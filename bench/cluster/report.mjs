import { cpus } from "node:os";
import { number } from "../lib/table.mjs";
import { summary } from "../lib/statistics.mjs";
import { ONE_SLOT, SPREAD } from "./measure.mjs";
import { shares } from "./shares.mjs";

const MODELLED = [3, 6, 16];

/** Groups the results by their parameters. */
function grouped(results) {
  const of = (masters, inFlight, layout) =>
    results.filter(
      (one) => one.masters === masters && one.inFlight === inFlight && one.layout === layout,
    );
  const distinct = (name) => [...new Set(results.map((one) => one[name]))];
  const [masters, flights] = [distinct("masters"), distinct("inFlight")];
  const [few, many] = [masters[0], flights.at(-1)];
  return { of, masters, flights, model: model(of(few, many, SPREAD), of(few, many, ONE_SLOT)) };
}

/** Returns the chart: measured throughput first, then the estimate. */
export function bars(results) {
  const { of, masters, flights, model } = grouped(results);
  const exactly = (value) => ({ median: value, low: value, high: value });
  const measured = masters.flatMap((count) =>
    flights.map((inFlight) => ({
      title: `${count} masters and the client on ${cpus().length} cores, ${inFlight} in flight`,
      cells: [SPREAD, ONE_SLOT].map((layout) =>
        summary(of(count, inFlight, layout).map((one) => one.throughput)),
      ),
    })),
  );
  const computed = model.clusters.map(({ count, total }) => ({
    title: `Computed: ${count} masters on separate machines`,
    cells: [exactly(total), exactly(model.fullAlone)],
  }));
  const all = [...measured, ...computed];
  return {
    title: "Redis Cluster: acquire + release",
    metrics: all.map(({ title }) => ({ title, unit: "pairs/s", better: "higher" })),
    rows: [SPREAD, ONE_SLOT].map((name, at) => ({
      name,
      cells: all.map(({ cells }) => cells[at]),
    })),
  };
}

/** Returns the results as Markdown: first the measurements, then the estimate. */
export function report({ results, rounds, ms }) {
  const { of, masters, flights, model } = grouped(results);
  return [
    "# Redis Cluster: spread over all masters",
    "",
    `Pairs of acquire and release on 20,000 keys, from one process with one backend. Median of ${rounds} alternating rounds of ${ms} ms, quartiles in brackets.`,
    `Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}.`,
    "",
    "## Measured: who does the work",
    "",
    "Script calls of each master in all rounds, from its own count (`INFO commandstats`); 100 % is an even share.",
    "",
    "| | each master | farthest from even |",
    "|---|---|---|",
    ...masters.flatMap((count) =>
      [SPREAD, ONE_SLOT].map((layout) => {
        const own = results.filter((one) => one.masters === count && one.layout === layout);
        const calls = own[0].calls.map((_, i) => own.reduce((sum, one) => sum + one.calls[i], 0));
        return shareRow(`${count} masters, ${layout}`, calls);
      }),
    ),
    "",
    "## Measured: throughput and cost on this machine",
    "",
    "All masters and the client share the machine's cores, so throughput here shows what spreading costs, not what it brings: the cores are the limit, whoever uses them. The more masters share the requests in flight, the fewer each of them, and the client, finds whenever it wakes up; so a pair costs more with few in flight, and little more with many.",
    "",
    "| | pairs/s, spread | pairs/s, one slot | servers' CPU per pair (µs), spread | one slot | client's CPU per pair (µs), spread | one slot | its main thread (µs), spread | one slot |",
    `|${"---|".repeat(9)}`,
    ...masters.flatMap((count) =>
      flights.map((inFlight) => {
        const cells = (read) =>
          [SPREAD, ONE_SLOT].map((layout) => cell(of(count, inFlight, layout).map(read)));
        return row([
          `${count} masters, ${inFlight} in flight`,
          ...cells((one) => one.throughput),
          ...cells((one) => one.cost.servers),
          ...cells((one) => one.cost.client),
          ...cells((one) => one.cost.mainThread),
        ]);
      }),
    ),
    "",
    ...told(model),
    "",
  ].join("\n");
}

/** Estimates the throughput if every master has its own core. */
function model(spread, oneSlot) {
  const cost = (own, name) => summary(own.map((one) => one.cost[name])).median;
  const [server, mainThread] = [cost(spread, "servers"), cost(spread, "mainThread")];
  const [full, fullAlone] = [1e6 / server, 1e6 / cost(oneSlot, "servers")];
  const clusters = MODELLED.map((count) => {
    const largest = Math.max(...shares(count));
    return { count, largest, total: full / largest };
  });
  return { ...spread[0], server, mainThread, full, fullAlone, clusters };
}

function told({ masters, inFlight, server, mainThread, full, fullAlone, clusters }) {
  return [
    "## Computed: masters on machines of their own",
    "",
    `Not measured. From the costs above (${masters} masters, ${inFlight} in flight): a pair costs a master ${number(server)} µs and the client's main thread ${number(mainThread)} µs. A master serves commands on one core, so it is full at ${number(full)} pairs/s; with all locks in one slot, where a pair costs it ${number(1e6 / fullAlone)} µs, the whole cluster is full at ${number(fullAlone)}. Spread, it is full when the master with the largest share is; the shares are those of the layout for the keys of this benchmark and masters with equal parts of the slots. A client process is taken to be full when its main thread is. Network, persistence and replication are left out.`,
    "",
    "| masters | largest share, of even | pairs/s of the cluster | against one slot | client processes to fill it |",
    "|---|---|---|---|---|",
    ...clusters.map(({ count, largest, total }) =>
      row([
        String(count),
        percent(largest * count),
        number(total),
        `×${number(total / fullAlone)}`,
        number(Math.ceil((total * mainThread) / 1e6)),
      ]),
    ),
  ];
}

function shareRow(name, calls) {
  const total = calls.reduce((sum, count) => sum + count, 0);
  const ofEven = calls.map((count) => (count * calls.length) / total);
  const farthest = Math.max(...ofEven.map((share) => Math.abs(share - 1)));
  return row([name, ofEven.map(percent).join(", "), percent(farthest)]);
}

const percent = (share) => `${Math.round(share * 100)} %`;

const row = (cells) => `| ${cells.join(" | ")} |`;

function cell(values) {
  const { median, low, high } = summary(values);
  return `${number(median)} [${number(low)}–${number(high)}]`;
}
