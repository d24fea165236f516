// Writes the report on all runs, in Markdown.

import { curves } from "./chart.mjs";

const CELLS = {
  alone: { name: "the lock alone", color: "#cf222e" },
  heeded: { name: "isHeld() and signal checked", color: "#bf8700" },
  written: { name: "fence checked at writes", color: "#8250df" },
  fenced: { name: "fence checked at reads and writes", color: "#1a7f37" },
};

const count = (number) => number.toLocaleString("en-US");
const perThousand = (lost, pauses) => (pauses === 0 ? 0 : Math.round((lost / pauses) * 1000));
const total = (counts) => Object.values(counts).reduce((sum, number) => sum + number, 0);

function table(header, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(header), `|${header.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}

/** Returns a summary of a run for the terminal. */
export function inShort({ turns, faults, blocked, promises, updates }) {
  const lines = [`  ${count(turns)} turns, ${count(total(faults) + total(blocked))} faults`];
  for (const { name, examined, violations, excused, examples } of promises) {
    const forgiven = excused ? `, ${excused} while nothing is guaranteed` : "";
    lines.push(
      `  ${violations ? "BROKEN" : "kept  "} ${name} (${count(examined)} checked${forgiven})`,
    );
    if (violations) lines.push(...examples.map((text) => `           ${text}`));
  }
  const lost = Object.entries(CELLS).map(
    ([cell, { name }]) => `${updates[cell].lost} with ${name}`,
  );
  lines.push(`  updates lost: ${lost.join(", ")}`);
  return lines.join("\n");
}

/**
 * @param {any[]} runs the summaries, with the machine and the commit of each run
 * @param {any[]} long the results of `growthOf`, with the same fields
 */
export function report(runs, long = []) {
  const good = runs.filter(({ backend }) => !backend.startsWith("control"));
  const controls = runs.filter(({ backend }) => backend.startsWith("control"));
  const parts = [
    introduction(runs),
    runsTable(runs),
    promisesTable(good),
    controls.length > 0 && controlsText(controls),
    updatesText(good),
    faultsTable(runs),
    long.length > 0 && longText(long),
    limitsText(runs),
  ];
  return { markdown: `${parts.filter(Boolean).join("\n\n")}\n`, charts: charts(good) };
}

function introduction(runs) {
  const machines = [...new Set(runs.map(({ machine }) => machine))].join("; ");
  return `# Proof: the guarantees under faults

\`npm run prove -- --report\` writes this page. In each run, several processes with many workers take turns on a few keys, with \`lock\` and \`hold\`, with and without \`autoExtend\`, and with and without telemetry. Some keys are semaphores of 2, 3 and 5 holders, which some workers ask for with another limit; some have readers and writers; and some turns take several keys at once. Meanwhile processes are killed, stopped and given another time of day, event loops are blocked, servers are killed, stopped and replaced, and networks slow down, stop delivering and disconnect. A seed decides all of these faults. Every event is recorded, and an independent program checks the record afterwards. Each holder of a lock updates a register, which is a separate process that knows nothing of locks. Holders that share a key update a place for each slot.

Machine: ${machines}; the servers run on the same machine. To repeat a run:

\`\`\`sh
npm run prove -- redis --minutes 10 --seed ${runs[0]?.seed ?? 1}
\`\`\`

The seed decides which faults happen and when. Which instruction they hit depends on the machine.`;
}

function runsTable(runs) {
  const rows = runs.map((run) => [
    ...[run.backend, run.seed, `\`${run.commit}\``, run.date, `${run.seconds / 60} min`],
    ...[`${run.processes} × ${run.workers}`, run.keys, `${run.ttlMs} ms`, count(run.turns)],
    // Older runs had neither.
    ...[run.shared, run.together].map((some) => (some === undefined ? "–" : count(some))),
    ...[count(total(run.faults) + total(run.blocked)), count(run.givenUp)],
  ]);
  const header = [
    ...["backend", "seed", "commit", "date", "time", "workers", "keys", "`ttlMs`", "turns"],
    ...["of them shared", "with other keys", "faults", "acquires aborted"],
  ];
  return `## The runs\n\n${table(header, rows)}`;
}

/** What each check means. */
const MEANINGS = {
  "one holder":
    "`isHeld()` was never true in more workers at the same moment than may hold the key, and two that share it never had the same slot",
  "fences rise": "each fence is higher than those of holders before it, and none appears twice",
  "no guarded update lost": "updates of the cell that checks the fence at reads and writes",
  "`fn` starts with its lock": "`isHeld()` is true at the first instruction of `fn`",
  "nothing stays locked":
    "an independent client of the store sees the lock gone `ttlMs` and the tolerance after the holder's end",
  "no operation beyond its limit":
    "waits, releases and closes end in time, not counting pauses of the process",
  "only LockErrors": "every error has a code that fits the fault",
  "no unexpected death":
    "no process dies by a signal that was not sent, ends with an error code, or hangs",
  "the undo left nothing": "aborted acquires with a TTL of minutes leave no lock behind",
};

const FAILOVERS =
  "Redis replicates asynchronously. A failover may lose the last locks, releases and fences, and an old master that does not know yet that it was replaced continues to grant locks, with Sentinel for up to ten seconds. [The page on Redis](redis.md#when-things-go-wrong) explains this. Violations are excused from 1.5 s before a failover began until 1.5 s after every node knew its role.";
const CLOCKS =
  "On SQLite, violations are excused while the clock of a process is off by an hour. To that process the locks of others have expired, so [it may acquire one](sqlite.md#clock) that is still in use. Its fence is higher all the same.";
const RELEASES =
  "PostgreSQL [answers a release](postgres.md#how-it-works) before it is on the disk. If the server is killed at that moment, the release is lost, and the lock lasts until its TTL.";

function promisesTable(runs) {
  const rows = Object.entries(MEANINGS).map(([name, meaning]) => [
    `**${name}**: ${meaning}`,
    ...runs.map(({ promises }) => {
      const found = promises.find((one) => one.name === name);
      if (!found) return "–"; // The run is older than this check.
      const { examined, violations, excused } = found;
      const verdict = violations ? `**${count(violations)} broken** of` : "kept,";
      return `${verdict} ${count(examined)}${excused ? `; ${count(excused)} ¹` : ""}`;
    }),
  ]);
  const excusedIn = (isOf) =>
    runs.some(({ backend, promises }) => isOf(backend) && promises.some(({ excused }) => excused));
  const notes = [
    excusedIn((backend) => backend.startsWith("redis")) && FAILOVERS,
    excusedIn((backend) => backend === "sqlite") && CLOCKS,
    excusedIn((backend) => backend === "postgres" || backend === "pgbouncer") && RELEASES,
  ].filter(Boolean);
  const times = runs
    .filter(({ unpromisedSeconds }) => unpromisedSeconds)
    .map((run) => `${run.backend} ${run.unpromisedSeconds} s of ${run.seconds} s`);
  const share = times.length ? ` This applied for ${times.join(", ")}.` : "";
  const note = notes.length
    ? `\n\n¹ Violations at times when the property is not guaranteed. ${notes.join(" ")}${share}`
    : "";
  return `## Guarantees and findings\n\nEach number says how many cases were checked.\n\n${table(["", ...runs.map(({ backend }) => backend)], rows)}${note}`;
}

const CONTROLS = {
  control:
    "uses a lock that does not work across processes: each process has a memory backend of its own",
  "control-limits":
    "is one process whose locks work, but which ignores how many holders may share a key",
};

function controlsText(runs) {
  const texts = runs.map(({ backend, promises, turns, updates }) => {
    const found = promises.filter(({ violations }) => violations);
    const list = found.map(({ name, violations }) => `${name}: ${count(violations)}`).join("; ");
    const { lost, accepted } = updates.alone;
    return `- \`${backend}\` ${CONTROLS[backend]}. In ${count(turns)} turns it broke these guarantees: ${list}. ${count(lost)} of ${count(accepted)} updates were lost.`;
  });
  return `### The controls

These runs have to fail, or the checks prove nothing. \`npm run test:all\` asserts that they do.

${texts.join("\n")}`;
}

function updatesText(runs) {
  const header = ["", "pauses", ...Object.values(CELLS).map(({ name }) => name)];
  const rows = runs.flatMap(({ backend, kinds }) =>
    kinds.map(({ name, pauses, lost }) => [
      `${backend}: ${name}`,
      count(pauses),
      ...Object.keys(CELLS).map((cell) => count(perThousand(lost[cell], pauses))),
    ]),
  );
  const unpromised = runs
    .filter(({ updates }) => updates.alone.unpromised)
    .map(({ backend, updates }) => {
      const [alone, ...others] = Object.keys(CELLS).map((cell) => count(updates[cell].unpromised));
      return `${backend} ${alone} updates with the lock alone, and ${others.join(", ")} in the other columns`;
    });
  const refused = runs.map(
    ({ backend, updates: { fenced } }) => `${backend} ${count(fenced.refused)}`,
  );
  return `## What a lock cannot do

A holder may be paused for longer than its lock lasts, by the scheduler, the garbage collector or its host. When it continues, its write overwrites what others have written meanwhile. No lock can prevent that. In these runs each holder reads a register, works, and writes it. The table and the chart show how many updates were lost for each thousand pauses between the read and the write. One pause may lose several updates, because others took many turns meanwhile.

![Updates lost per thousand pauses, by the length of the pause](proof.svg)

- **The lock alone** loses updates as soon as a pause is longer than the lock: \`ttlMs\` on Redis, one second more elsewhere.
- **Checking \`isHeld()\` and \`signal\`** just before the write saves most updates, but not all: a pause may come between the check and the write. (One in five of the event loops that were blocked in the function was blocked at exactly that point.)
- **Checking fences at writes** refuses late writes. But a late write that comes before the successor's first write is accepted, and the successor, which read before it, overwrites it.
- **Checking fences at reads and writes** loses nothing as long as fences rise, because each read shuts out all earlier holders.

${table(header, rows)}

The numbers are updates lost per thousand pauses. With \`autoExtend\` a blocked event loop alone does no harm, because heartbeats do not need it. They do need the process and the store: in the rows with another fault, the event loop was blocked while the store or the connection to it was disturbed. A process that was stopped while its event loop was blocked counts as stopped. The table leaves out what was lost while nothing is guaranteed, in failovers and with clocks that are off by an hour: ${unpromised.join(", ") || "nothing"}. The fully guarded cell refused these late writes: ${refused.join(", ")}.`;
}

function faultsTable(runs) {
  const kinds = [...new Set(runs.flatMap(({ faults }) => Object.keys(faults)))];
  const places = [...new Set(runs.flatMap(({ blocked }) => Object.keys(blocked)))];
  const PLACES = {
    inside: "event loop blocked in the function",
    unseen: "event loop blocked just before the write",
    granted: "event loop blocked between the grant and the function",
    waiting: "event loop blocked while waiting",
  };
  const cells = (list, field) =>
    list.map((name) => [
      PLACES[name] ?? name,
      ...runs.map((run) => (run[field][name] ? count(run[field][name]) : "–")),
    ]);
  const rows = [...cells(kinds, "faults"), ...cells(places, "blocked")];
  return `## The faults\n\n${table(["", ...runs.map(({ backend }) => backend)], rows)}\n\nProcesses and event loops pause for 0.3 to 3 TTLs.`;
}

function longText(runs) {
  const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;
  const change = (run, name, format = (value) => String(Math.round(value))) =>
    `${format(run.first[name])} → ${format(run.last[name])}`;
  const rows = runs.map((run) => [
    ...[run.backend, `\`${run.commit}\``, count(run.operations), `${count(run.seconds)} s`],
    ...[count(run.broken), count(total(run.errors)), run.isFlat ? "flat" : `**${run.grew}**`],
    ...["heapUsed", "rss"].map((name) => change(run, name, megabytes)),
    ...["descriptors", "threads", "handles"].map((name) => change(run, name)),
    count(run.idle.listeners),
  ]);
  const header = [
    ...["backend", "commit", "operations", "time", "connections broken", "errors", ""],
    ...["heap", "RSS", "descriptors", "threads", "handles", "listeners left"],
  ];
  return `## A long run

\`npm run prove -- --long\` runs one process with 32 operations in flight: acquire and release, waits, timeouts, aborts, lookups and extensions, with and without telemetry. Its connections are broken every five seconds (SQLite has none). The figures are the means of the first and the last quarter of twenty measurements, each taken after a garbage collection while operations are running. The last column counts listeners on a signal that was passed to all calls.

${table(header, rows)}`;
}

function limitsText(runs) {
  const notes = runs.flatMap(({ backend, notes }) => notes.map((note) => `- ${backend}: ${note}`));
  return `## What was not tried

- Power cuts: servers are killed, but the operating system is not.
- Several hosts: all processes share one host, its memory and its clock (except the process whose clock is set).
- Firestore itself: the runs use this repository's emulator. It keeps its data in memory, so it is stopped but not killed.
- Networks of Sentinel and Cluster: their servers are reached directly, so these networks are not disturbed.
- Larger clock errors: the clock of a process is set by an hour for Redis and PostgreSQL, where it does not matter; by 0.4 s for Firestore, which tolerates half a second; and by 0.4 s and an hour for SQLite.${notes.length ? `\n${notes.join("\n")}` : ""}`;
}

function charts(runs) {
  const panels = runs.map(({ backend, ttlMs, lengths }) => ({
    title: `${backend} (ttlMs ${ttlMs})`,
    curves: Object.entries(CELLS).map(([cell, { name, color }]) => ({
      ...{ name, color },
      points: lengths
        .filter(({ pauses }) => pauses > 0)
        .map(({ from, to, pauses, lost }) => [(from + to) / 2, perThousand(lost[cell], pauses)]),
    })),
  }));
  const axes = { x: "length of the pause, in TTLs", y: "updates lost per thousand pauses" };
  return curves({ title: "What a paused holder destroys", panels, axes });
}
