// The pictures of the documents. `node scripts/docs/pictures.mjs` writes them to docs/pictures/.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../lib/run.mjs";
import { CHARTS } from "./charts.mjs";
import { arrow, box, picture, text, timeline } from "./drawing.mjs";

const doubleCharge = timeline({
  title: "Two processes handle the same order without a lock, and the card is charged twice",
  end: 10,
  lanes: [
    {
      name: "Process A",
      bars: [
        { from: 0.4, to: 2.4, label: "paid? no", kind: "a" },
        { from: 2.6, to: 5.6, label: "charge the card", kind: "a" },
        { from: 5.8, to: 7.8, label: "mark as paid", kind: "a" },
      ],
    },
    {
      name: "Process B",
      bars: [
        { from: 1.4, to: 3.4, label: "paid? no", kind: "b" },
        { from: 3.6, to: 6.6, label: "charge the card", kind: "b" },
        { from: 6.8, to: 8.8, label: "mark as paid", kind: "b" },
      ],
    },
    {
      name: "The customer's card",
      marks: [
        { at: 3.9, label: "charged", kind: "good" },
        { at: 6.4, label: "charged again", kind: "bad" },
      ],
    },
  ],
  arrows: [
    { from: [0, 3.9], to: [2, 3.9], kind: "a" },
    { from: [1, 6.4], to: [2, 6.4], kind: "b" },
  ],
});

const singleCharge = timeline({
  title:
    "With a lock on the order, the second process waits, finds the order paid and does nothing",
  end: 10,
  lanes: [
    {
      name: "Process A",
      bars: [
        { from: 0.4, to: 5.4, label: "holds the lock: not paid, charge, mark as paid", kind: "a" },
      ],
    },
    {
      name: "Process B",
      bars: [
        { from: 1.4, to: 5.5, label: "waits", kind: "line", dashed: true },
        { from: 5.6, to: 9.4, label: "holds the lock: paid already", kind: "b" },
      ],
    },
    { name: "The customer's card", marks: [{ at: 2.1, label: "charged once", kind: "good" }] },
  ],
  arrows: [{ from: [0, 2.1], to: [2, 2.1], kind: "a" }],
});

const pausedHolder = timeline({
  title: "A holder is paused beyond its TTL, and its late write overwrites the next holder's",
  end: 10,
  moments: [{ at: 4, label: "the lock expires" }],
  lanes: [
    {
      name: "Process A",
      bars: [
        { from: 0.3, to: 1.8, label: "works", kind: "a" },
        {
          from: 2,
          to: 7.4,
          label: "paused: suspended, swapped out, frozen",
          kind: "line",
          dashed: true,
        },
        { from: 7.6, to: 9, label: "writes", kind: "bad" },
      ],
    },
    {
      name: "Process B",
      bars: [{ from: 4.2, to: 6.8, label: "holds the lock, writes", kind: "b" }],
    },
    {
      name: "The resource",
      marks: [
        { at: 6, label: "B's work", kind: "good" },
        { at: 8.3, label: "overwritten", kind: "bad" },
      ],
    },
  ],
  arrows: [
    { from: [1, 6], to: [2, 6], kind: "b" },
    { from: [0, 8.3], to: [2, 8.3], kind: "bad" },
  ],
});

const fencedHolder = timeline({
  title: "The same pause, but the resource compares fences and refuses the late write",
  end: 10,
  moments: [{ at: 4, label: "the lock expires" }],
  lanes: [
    {
      name: "Process A, fence 33",
      bars: [
        { from: 0.3, to: 1.8, label: "works", kind: "a" },
        { from: 2, to: 7.4, label: "paused", kind: "line", dashed: true },
        { from: 7.6, to: 9, label: "writes", kind: "a" },
      ],
    },
    {
      name: "Process B, fence 34",
      bars: [{ from: 4.2, to: 6.8, label: "holds the lock, writes", kind: "b" }],
    },
    {
      name: "The resource, which remembers the highest fence",
      marks: [
        { at: 6, label: "34: accepted", kind: "good" },
        { at: 8.3, label: "33 < 34: refused", kind: "good" },
      ],
    },
  ],
  arrows: [
    { from: [1, 6], to: [2, 6], kind: "b" },
    { from: [0, 8.3], to: [2, 8.3], kind: "a" },
  ],
});

const beats = (times, kind) => times.map((at) => ({ at, label: "", kind }));

const blockedLoop = timeline({
  title: "Heartbeats come from a native thread, so a blocked event loop does not lose the lock",
  end: 10,
  lanes: [
    {
      name: "Your event loop",
      bars: [
        { from: 0.3, to: 2.2, label: "your code", kind: "a" },
        {
          from: 2.4,
          to: 7.6,
          label: "blocked for 45 s: parsing, hashing, compressing",
          kind: "bad",
        },
        { from: 7.8, to: 9.6, label: "your code", kind: "a" },
      ],
    },
    {
      name: "SyncGuard's thread: a heartbeat every 10 s",
      marks: beats([1.4, 2.7, 4, 5.3, 6.6, 7.9, 9.2], "good"),
    },
    {
      name: "The lock, with a lease of 30 s",
      bars: [{ from: 0.3, to: 9.6, label: "held all the time", kind: "good" }],
    },
  ],
});

const slots = timeline({
  title: "With concurrency 3, three holders work at a time, each in a slot of its own",
  end: 10,
  lanes: [
    {
      name: "slot 0",
      bars: [
        { from: 0.3, to: 4.2, label: "A", kind: "a" },
        { from: 4.3, to: 9.6, label: "D", kind: "b" },
      ],
    },
    { name: "slot 1", bars: [{ from: 0.8, to: 6.6, label: "B", kind: "a" }] },
    { name: "slot 2", bars: [{ from: 1.4, to: 8, label: "C", kind: "a" }] },
    {
      name: "the fourth caller",
      bars: [{ from: 1.9, to: 4.2, label: "D waits", kind: "line", dashed: true }],
    },
  ],
});

const readersAndWriter = timeline({
  title: "Readers share a key; a writer waits for them, and no new reader starts before it",
  end: 10,
  lanes: [
    { name: "Reader 1", bars: [{ from: 0.3, to: 3.4, label: "reads", kind: "a" }] },
    { name: "Reader 2", bars: [{ from: 1, to: 4.4, label: "reads", kind: "a" }] },
    {
      name: "Writer",
      bars: [
        { from: 2, to: 4.4, label: "waits", kind: "line", dashed: true },
        { from: 4.5, to: 7, label: "writes", kind: "b" },
      ],
    },
    {
      name: "Reader 3",
      bars: [
        { from: 2.6, to: 7, label: "waits behind the writer", kind: "line", dashed: true },
        { from: 7.1, to: 9.6, label: "reads", kind: "a" },
      ],
    },
  ],
});

const minHold = timeline({
  title: "minHoldMs keeps the lock until the slowest host has looked, so the job runs once",
  end: 10,
  moments: [{ at: 1, label: "03:00:00" }],
  lanes: [
    {
      name: "Host 1, on time",
      bars: [
        { from: 1, to: 2.2, label: "job", kind: "a" },
        { from: 2.3, to: 8, label: "the lock is kept for minHoldMs", kind: "line", dashed: true },
      ],
    },
    {
      name: "Host 2, its clock is 20 s behind",
      marks: [{ at: 4.4, label: "busy: skips", kind: "good" }],
    },
    {
      name: "Host 3, its clock is 30 s behind",
      marks: [{ at: 5.8, label: "busy: skips", kind: "good" }],
    },
  ],
});

const handOver = timeline({
  title: "The store notifies a waiter of a release, so it starts about a millisecond later",
  end: 10,
  lanes: [
    { name: "Process A", bars: [{ from: 0.3, to: 4.8, label: "holds the lock", kind: "a" }] },
    {
      name: "The store",
      marks: [{ at: 5.2, label: "key changed: notify", kind: "good", anchor: "end" }],
    },
    {
      name: "Process B, with SyncGuard",
      bars: [
        { from: 1, to: 5.5, label: "waits", kind: "line", dashed: true },
        { from: 5.7, to: 9.6, label: "holds the lock", kind: "b" },
      ],
    },
  ],
  arrows: [
    { from: [0, 4.7], to: [1, 5.1], kind: "muted" },
    { from: [1, 5.3], to: [2, 5.6], kind: "good" },
  ],
});

const shutdown = timeline({
  title: "On SIGTERM the process stops taking work, finishes what it has, and closes the backend",
  end: 10,
  moments: [
    { at: 2.6, label: "SIGTERM" },
    { at: 9.2, label: "SIGKILL" },
  ],
  lanes: [
    {
      name: "Your process",
      bars: [
        { from: 0.3, to: 2.5, label: "serving", kind: "a" },
        { from: 2.7, to: 6, label: "finishes its requests", kind: "a" },
        { from: 6.1, to: 8.2, label: "backend.close()", kind: "good" },
      ],
    },
    {
      name: "Its lock",
      bars: [{ from: 0.9, to: 5.6, label: "held", kind: "b" }],
      marks: [{ at: 5.8, label: "released", kind: "good", anchor: "start" }],
    },
    {
      name: "The next holder",
      bars: [
        { from: 3.4, to: 5.7, label: "waits", kind: "line", dashed: true },
        { from: 5.9, to: 9.7, label: "holds the lock", kind: "b" },
      ],
    },
  ],
});

/** The layers, from the functions that people call to the stores. */
function engine() {
  const label = (x, y, width, height, title, lines, kind = "line") => [
    box(x, y, width, height, { kind }),
    text(x + width / 2, y + 20, title, { anchor: "middle", weight: 600 }),
    lines.map((line, index) =>
      text(x + width / 2, y + 38 + index * 16, line, {
        anchor: "middle",
        size: 12,
        color: "muted",
      }),
    ),
  ];
  const stores = ["memory", "SQLite", "Redis", "PostgreSQL", "Firestore", "your own"];
  const width = 96;
  return picture(
    "Every way into the package goes through one engine, written in Rust",
    640,
    470,
    [
      text(8, 22, "Your program, on its event loop", { size: 12, weight: 600, color: "muted" }),
      label(
        8,
        32,
        308,
        62,
        "lock  tryLock  hold  tryHold  lead",
        ["reads the config, builds results and errors"],
        "a",
      ).flat(2),
      label(324, 32, 308, 62, "backend.acquire  release  extend", ["one attempt each"], "a").flat(
        2,
      ),
      arrow(162, 94, 250, 128),
      arrow(478, 94, 390, 128),
      text(320, 116, "one call, one reply", { anchor: "middle", size: 12, color: "muted" }),
      box(8, 132, 624, 158, { kind: "good" }),
      text(24, 154, "The engine, in Rust, on native threads", {
        size: 12,
        weight: 600,
        color: "muted",
      }),
      ...[
        ["wait", "queue, back off,", "be notified"],
        ["hold", "until when it is", "certainly yours"],
        ["heartbeat", "extend in time,", "report a loss"],
        ["undo", "release what", "nobody owns"],
        ["exit", "release when the", "process ends"],
      ].map(([name, ...lines], index) =>
        label(20 + index * 122, 166, 112, 72, name, lines).flat(2),
      ),
      text(320, 262, "trait Backend: acquire, release, extend, look up, watch", {
        anchor: "middle",
        size: 12.5,
      }),
      text(320, 280, "each is a single attempt", { anchor: "middle", size: 12, color: "muted" }),
      ...stores.map((_, index) => arrow(56 + index * 105.6, 290, 56 + index * 105.6, 322)),
      ...stores
        .map((name, index) => [
          box(8 + index * 105.6, 326, width, 40, { kind: index === 5 ? "a" : "b" }),
          text(8 + index * 105.6 + width / 2, 351, name, { anchor: "middle" }),
        ])
        .flat(),
      ...["in the", "a file", "a script", "a statement", "a commit", "on your"].map((line, index) =>
        text(8 + index * 105.6 + width / 2, 390, line, {
          anchor: "middle",
          size: 12,
          color: "muted",
        }),
      ),
      ...["process", "in WAL mode", "in Lua", "in SQL", "with a condition", "event loop"].map(
        (line, index) =>
          text(8 + index * 105.6 + width / 2, 406, line, {
            anchor: "middle",
            size: 12,
            color: "muted",
          }),
      ),
      text(320, 446, "A blocked event loop stops only the top row, and a backend of your own.", {
        anchor: "middle",
        size: 12.5,
      }),
    ].flat(3),
  );
}

/** Which backend to choose, as three questions. */
function decision() {
  const LEFT = { x: 6, width: 236 };
  const RIGHT = { x: 300, width: 134 };
  const question = (y, lines) => [
    box(LEFT.x, y, LEFT.width, 50, { kind: "a" }),
    lines.map((line, index) =>
      text(LEFT.x + LEFT.width / 2, y + (lines.length === 1 ? 30 : 22 + index * 17), line, {
        anchor: "middle",
      }),
    ),
  ];
  const answer = (y, word, name, line) => [
    arrow(LEFT.x + LEFT.width, y + 25, RIGHT.x - 4, y + 25),
    text((LEFT.x + LEFT.width + RIGHT.x) / 2 - 2, y + 19, word, {
      size: 12,
      color: "muted",
      anchor: "middle",
    }),
    box(RIGHT.x, y, RIGHT.width, 50, { kind: "good" }),
    text(RIGHT.x + RIGHT.width / 2, y + 21, name, { anchor: "middle", weight: 600 }),
    text(RIGHT.x + RIGHT.width / 2, y + 39, line, {
      anchor: "middle",
      size: 11.5,
      color: "muted",
    }),
  ];
  const next = (y, word) => [
    arrow(LEFT.x + LEFT.width / 2, y, LEFT.x + LEFT.width / 2, y + 38),
    text(LEFT.x + LEFT.width / 2 + 8, y + 23, word, { size: 12, color: "muted" }),
  ];
  return picture(
    "Four questions lead to a backend",
    440,
    376,
    [
      question(10, ["Do processes on several hosts,", "containers or pods compete?"]),
      answer(10, "no", "SQLite", "default, no server"),
      next(60, "yes"),
      question(102, ["Do you run PostgreSQL, and is a", "duplicate worse than a short wait?"]),
      answer(102, "yes", "PostgreSQL", "durable, one primary"),
      next(152, "no"),
      question(194, ["Do you run Redis or Valkey?"]),
      answer(194, "yes", "Redis", "fastest; use fences"),
      next(244, "no"),
      question(286, ["Do you only have Firestore?"]),
      answer(286, "yes", "Firestore", "keep clocks in sync"),
      text(LEFT.x, 362, "In tests: memory. It needs nothing, and fake timers drive it.", {
        color: "muted",
        size: 12.5,
      }),
    ].flat(4),
  );
}

export const PICTURES = {
  "double-charge": doubleCharge,
  "single-charge": singleCharge,
  "paused-holder": pausedHolder,
  "fenced-holder": fencedHolder,
  "blocked-loop": blockedLoop,
  slots,
  "readers-and-writer": readersAndWriter,
  "min-hold": minHold,
  "hand-over": handOver,
  shutdown,
  engine: engine(),
  decision: decision(),
  ...CHARTS,
};

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = join(root, "docs", "pictures");
  mkdirSync(folder, { recursive: true });
  for (const [name, svg] of Object.entries(PICTURES))
    writeFileSync(join(folder, `${name}.svg`), svg);
}
