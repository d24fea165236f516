// Builds a model from the events of a run: sections, pauses, faults, processes and the requests to the
// register.

/**
 * @typedef {object} Section one turn of a worker
 * @property {string} id
 * @property {string} process
 * @property {string} key
 * @property {number} [limit] how many holders may share the key with it, itself included; without a
 *   limit it holds the key alone
 * @property {number} [slot] its slot, if it shares the key
 * @property {boolean} autoExtend
 * @property {number} askedAt
 * @property {number} [from] when the function began, with `fence`
 * @property {string} [fence]
 * @property {boolean} [held] whether the lock was held at the first instruction
 * @property {number} [believedTo] until when, since `from`, `isHeld()` was true throughout
 * @property {number} [leftAt] when the function returned
 * @property {boolean} [kept] whether the lock was still held at that time
 * @property {number} [endedAt] when the call ended
 */

/** @param {Iterable<any>} events */
export function model(events) {
  const sections = new Map();
  const processes = new Map();
  const history = {
    run: undefined,
    sections: [],
    processes,
    pauses: [],
    faults: [],
    errors: [],
    quits: [],
    gave: [],
    writes: [],
    seen: [],
    closes: [],
    left: undefined,
  };
  // A process records its events in order, but another process records its end.
  const section = (id) => {
    if (!sections.has(id)) sections.set(id, { id });
    return sections.get(id);
  };
  const one = (name) => {
    if (!processes.has(name)) processes.set(name, { name, sent: [] });
    return processes.get(name);
  };
  const readers = {
    run: (event) => (history.run = event),
    ask: ({ t, p, s, k, limit, form, auto, observed }) =>
      Object.assign(section(s), {
        ...{ process: p, key: k, limit, form, observed, autoExtend: auto, askedAt: t },
      }),
    in: ({ t, s, f, slot, held }) =>
      Object.assign(section(s), {
        ...{ from: t, fence: f, slot, held, believedTo: held ? t : undefined },
      }),
    out({ t, s, to, kept }) {
      const left = section(s);
      left.leftAt = t;
      left.kept = kept;
      left.believedTo = to ?? left.believedTo;
    },
    end: ({ t, s }) => Object.assign(section(s), { endedAt: t }),
    error: ({ e, ...error }) => history.errors.push(error),
    quit: ({ e, ...error }) => history.quits.push(error),
    gave: ({ t, k }) => history.gave.push({ t, k }),
    blocked: ({ p, from, to, place }) =>
      history.pauses.push({ process: p, kind: "blocked", place, from, to }),
    stopped: ({ w, from, to }) => history.pauses.push({ process: w, kind: "stopped", from, to }),
    fault: ({ e, t, p, ...fault }) => history.faults.push(fault),
    spawn: ({ t, w }) => (one(w).spawnedAt = t),
    sent: ({ t, w, signal }) => one(w).sent.push({ t, signal }),
    exit: ({ t, w, code, signal, said }) =>
      Object.assign(one(w), { exitedAt: t, code, signal, said }),
    hung: ({ w }) => (one(w).hung = true),
    begin() {},
    closed: ({ p, from, t }) => history.closes.push({ process: p, from, to: t }),
    write: ({ t, s, k, cells, refused }) =>
      history.writes.push({ t, section: s, key: k, cells, refused }),
    seen: ({ t, k, f }) => history.seen.push({ t, key: k, fence: f }),
    ended: ({ t }) => (history.endedAt = t),
    left: ({ keys }) => (history.left = keys),
  };
  for (const event of events) readers[event.e](event);
  history.sections = [...sections.values()].sort((a, b) => a.askedAt - b.askedAt);
  history.writes.sort((a, b) => a.t - b.t);
  history.section = (id) => sections.get(id);
  return history;
}

export const isKilled = (process) => process?.sent.some(({ signal }) => signal === "SIGKILL");

/** Groups a list by the value of `field`. */
export function groupBy(list, field) {
  const groups = new Map();
  for (const item of list) {
    const name = field(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
}

/** Returns how long `pauses` lasted between two times. */
export function pausedBetween(pauses, from, to) {
  const parts = pauses
    .map((pause) => [Math.max(from, pause.from), Math.min(to, pause.to)])
    .filter(([begin, end]) => begin < end)
    .sort(([a], [b]) => a - b);
  let total = 0;
  let until = -Infinity;
  for (const [begin, end] of parts) {
    total += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return total;
}
