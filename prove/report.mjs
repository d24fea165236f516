// The report of runs, in Markdown.

import { curves } from "./chart.mjs";

const CELLS = {
  alone: { name: "the lock alone", color: "#cf222e" },
  heeded: { name: "isHeld() and signal heeded", color: "#bf8700" },
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

/** What a run showed, for a terminal. */
export function inShort({ turns, faults, blocked, promises, updates }) {
  const lines = [`  ${count(turns)} turns, ${count(total(faults) + total(blocked))} faults`];
  for (const { name, examined, violations, excused, examples } of promises) {
    const forgiven = excused ? `, ${excused} when nothing is promised` : "";
    lines.push(
      `  ${violations ? "BROKEN" : "kept  "} ${name} (${count(examined)} looked at${forgiven})`,
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
 * @param {any[]} runs summaries, with where and of what they were
 * @param {any[]} long of `growthOf`, likewise
 */
export function report(runs, long = []) {
  const good = runs.filter(({ backend }) => backend !== "control");
  const control = runs.find(({ backend }) => backend === "control");
  const parts = [
    introduction(runs),
    runsTable(runs),
    promisesTable(good),
    control && controlText(control),
    updatesText(good),
    faultsTable(runs),
    long.length > 0 && longText(long),
    limitsText(runs),
  ];
  return { markdown: `${parts.filter(Boolean).join("\n\n")}\n`, charts: charts(good) };
}

function introduction(runs) {
  const machines = [...new Set(runs.map(({ machine }) => machine))].join("; ");
  return `# Proof: what the guarantees are worth under faults

Written by \`npm run prove -- --report\`. Several processes with many workers each take turns on a few keys, with \`lock\` and \`hold\`, with and without \`autoExtend\`, under telemetry and not. Meanwhile processes are killed, stopped, and given another time of day, event loops are blocked, servers are killed, stopped and replaced, and networks slow down, fall silent and break off: all of it drawn from a seed. Everything that happens is recorded, and the record is checked afterwards by a program that knows nothing of how locks are made. Under each lock a register is updated that is a process of its own and knows nothing of locks.

${machines}; servers on the same machine. To repeat a run:

\`\`\`sh
npm run prove -- redis --minutes 10 --seed ${runs[0]?.seed ?? 1}
\`\`\`

The seed decides which faults come when; which instruction they hit is up to the machine.`;
}

function runsTable(runs) {
  const rows = runs.map((run) => [
    ...[run.backend, run.seed, `\`${run.commit}\``, run.date, `${run.seconds / 60} min`],
    ...[`${run.processes} × ${run.workers}`, run.keys, `${run.ttlMs} ms`, count(run.turns)],
    ...[count(total(run.faults) + total(run.blocked)), count(run.givenUp)],
  ]);
  const header = [
    ...["backend", "seed", "commit", "date", "time", "workers", "keys", "`ttlMs`", "turns"],
    ...["faults", "given up half-way"],
  ];
  return `## The runs\n\n${table(header, rows)}`;
}

/** What each check looks at. */
const MEANINGS = {
  "one holder": "no two believed at the same moment that they hold it: `isHeld()` was true in both",
  "fences rise": "each later than the one before, none twice",
  "no guarded update lost": "of the cell that is read and written with the fence",
  "`fn` starts with its lock": "`isHeld()` is true at its first instruction",
  "nothing stays locked":
    "as an outsider sees the store: gone with `ttlMs` and the tolerance after the holder's end",
  "no operation beyond its limit": "waits, releases and closes; a process's own pauses not counted",
  "only LockErrors": "with a code that fits the fault",
  "no unexpected death": "by a signal that was not sent, an exit code, or no end at all",
  "the undo left nothing": "of acquires that were aborted half-way, with a TTL of minutes",
};

const FAILOVERS =
  "Redis replicates asynchronously: a failover may forget the last locks, releases and fences, and an old master that has not yet been told that it was replaced goes on granting locks of its own, with Sentinel for up to ten seconds. [The page on Redis](redis.md#when-things-go-wrong) says so. What counts: from 1.5 s before a failover began until 1.5 s after every node knew its role.";
const CLOCKS =
  "On SQLite, when the clock of a process was set by an hour: to it, locks of others have run out, and [it may get one](sqlite.md#clock) that is still in use. Its fence is higher all the same.";
const RELEASES =
  "PostgreSQL [answers a release](postgres.md#how-it-works) before it is on the disk: a server that is killed just then takes it back, and the lock lasts until its TTL.";

function promisesTable(runs) {
  const rows = Object.entries(MEANINGS).map(([name, meaning]) => [
    `**${name}**: ${meaning}`,
    ...runs.map(({ promises }) => {
      const found = promises.find((one) => one.name === name);
      if (!found) return "–"; // A run from before there was this check.
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
  const share = times.length ? ` That was the case for ${times.join(", ")}.` : "";
  const note = notes.length
    ? `\n\n¹ Broken when that is not promised. ${notes.join(" ")}${share}`
    : "";
  return `## What was promised, and what was found\n\nThe numbers are how many were looked at.\n\n${table(["", ...runs.map(({ backend }) => backend)], rows)}${note}`;
}

function controlText({ promises, turns, updates }) {
  const found = promises.filter(({ violations }) => violations);
  const list = found.map(({ name, violations }) => `${name}: ${count(violations)}`).join("; ");
  return `### The control

The same with a lock that is none (each process has a memory backend of its own) has to fail, or the checks are worth nothing. In ${count(turns)} turns it broke: ${list}. ${count(updates.alone.lost)} of ${count(updates.alone.accepted)} updates were lost. \`npm test\` asserts that it fails.`;
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

A holder that is paused for longer than its lock lasts, by its scheduler, its garbage collector or its host, goes on where it was, and what it then writes destroys what others have written meanwhile. No lock can prevent that. Each section here reads a register, works, and writes. These are the updates that were lost for each thousand pauses that fell between the two; a pause may lose several, since others took many turns meanwhile.

![Updates lost per thousand pauses, by the length of the pause](proof.svg)

- **The lock alone** loses updates as soon as a pause is longer than the lock: \`ttlMs\` on Redis, one second more elsewhere.
- **\`isHeld()\` and \`signal\` heeded** just before the write saves most of them. Not all: a pause may come between the look and the write. (Of the event loops that were blocked in the function, one in five was blocked just there.)
- **Fences checked at writes** refuse what comes late. Who comes late but before its successor's first write is accepted, and the successor's write, made from what it read before, destroys it.
- **Fences checked at reads and writes** lose nothing as long as fences rise: who reads has shut out all before it.

${table(header, rows)}

Updates lost per thousand pauses. With \`autoExtend\` a blocked event loop alone does no harm: heartbeats do not need it. They need the process and the store, though: the rows with another fault are of event loops that were blocked while the store or the way to it was disturbed. A process that was stopped while its event loop was blocked counts as stopped. What was lost when nothing is promised, in failovers and with clocks that are off by an hour, is left out: ${unpromised.join(", ") || "nothing"}. Late writes that the fully guarded cell refused: ${refused.join(", ")}.`;
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

\`npm run prove -- --long\`: one process, 32 at a time: acquire and release, waits, timeouts, aborts, lookups, extensions, with and without telemetry, while its connections are broken every five seconds (SQLite has none). Means of the first and the last quarter of twenty measurements, each after a garbage collection and in the midst of it; listeners on a signal that was given to all calls.

${table(header, rows)}`;
}

function limitsText(runs) {
  const notes = runs.flatMap(({ backend, notes }) => notes.map((note) => `- ${backend}: ${note}`));
  return `## What was not tried

- Power cuts: servers are killed, the system below them is not.
- Several hosts: all processes share one host, its clock (but for the one whose clock is set) and its memory.
- Firestore itself: the runs are on this repository's emulator, which keeps its data in memory and is therefore stopped, but not killed.
- Sentinel and Cluster are reached directly: their networks are not disturbed.
- The clock of a process is set by an hour for Redis and PostgreSQL, where it plays no part; by 0.4 s for Firestore, which bears no more than half a second; by 0.4 s and by an hour for SQLite.${notes.length ? `\n${notes.join("\n")}` : ""}`;
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
