// The checks of a history. Each is a function of the model, and returns how many cases it examined, the
// violations it found, and those of them that are excused.

import { excuser, isTakenBack } from "./excuses.mjs";
import { lostUpdates } from "./updates.mjs";
import { groupBy, isKilled, pausedBetween } from "./model.mjs";

/** How much a busy machine may exceed a limit. */
export const NOISE_MS = 3_000;

/** How far apart a signal and its effect may be recorded. */
const NEAR_MS = 200;

/** The errors that faults of stores and networks may cause. Any other error is a bug. */
const EXPECTED = new Set([
  ...["ServiceUnavailable", "NetworkTimeout", "RateLimited", "AcquisitionTimeout"],
  ...["Aborted", "LockLost"],
]);

class Findings {
  constructor() {
    this.examined = 0;
    this.violations = [];
    this.excused = [];
  }

  add(text, isExcused = false) {
    (isExcused ? this.excused : this.violations).push(text);
  }
}

/** Returns the sections that certainly held their lock, in order. */
function* beliefs({ sections }) {
  const believed = sections.filter(({ believedTo }) => believedTo !== undefined);
  for (const [key, list] of groupBy(believed, (section) => section.key)) {
    yield [key, list.sort((a, b) => a.from - b.from)];
  }
}

/** Checks that nobody holds a key beside others that do not allow it. */
function oneHolder(history) {
  const found = new Findings();
  const excused = excuser(history, "mayLoseWrites", "mayShareLocks");
  for (const [key, list] of beliefs(history)) {
    let holders = [];
    for (const section of list) {
      found.examined += 1;
      holders = holders.filter(({ believedTo }) => believedTo > section.from);
      const why = conflict([...holders, section]);
      if (why) {
        const last = holders.reduce((a, b) => (b.believedTo > a.believedTo ? b : a));
        found.add(
          `${key}: ${why}: ${at(section)} believed in it from ${section.from} on, ${at(last)} until ${last.believedTo}`,
          excused(last.from, section.from),
        );
      }
      holders.push(section);
    }
  }
  return found;
}

/** Returns what is wrong if these hold a key at the same time. The last of them came last. */
function conflict(holders) {
  if (holders.length === 1) return undefined;
  if (holders.some(({ limit }) => limit === undefined)) return "one of them does not share it";
  const most = Math.max(...holders.map(({ limit }) => limit));
  if (holders.length > most) return `${holders.length} holders, at most ${most} are allowed`;
  const { slot } = holders.at(-1);
  return holders.slice(0, -1).some((other) => other.slot === slot) ? "the same slot" : undefined;
}

/**
 * The last fences of a key. Holders that share it work at the same time, so one need only have a higher
 * fence than those that certainly came before it: exclusive holders, and holders of the same slot.
 */
class LastFences {
  #any;
  #exclusive;
  #ofSlots = new Map();

  /** Returns the section that came before this one and has the highest fence. */
  before({ limit, slot }) {
    if (limit === undefined) return this.#any;
    return higher(this.#exclusive, this.#ofSlots.get(slot));
  }

  add(section) {
    const { limit, slot } = section;
    this.#any = higher(this.#any, section);
    if (limit === undefined) this.#exclusive = higher(this.#exclusive, section);
    else this.#ofSlots.set(slot, higher(this.#ofSlots.get(slot), section));
  }
}

const higher = (a, b) => (!a || (b && b.fence > a.fence) ? b : a);

function risingFences(history) {
  const found = new Findings();
  const isForgotten = excuser(history, "mayLoseWrites");
  const isShared = excuser(history, "mayShareLocks");
  for (const [key, list] of beliefs(history)) {
    let fences = new LastFences();
    for (const section of list) {
      found.examined += 1;
      const highest = fences.before(section);
      if (highest && section.fence <= highest.fence) {
        const span = [highest.from, section.from];
        const isAnew = isForgotten(...span);
        const text = `${key}: ${at(section)} came after ${at(highest)}`;
        found.add(text, isAnew || isShared(...span));
        if (!isAnew) continue;
        // From here on, fences must rise again.
        fences = new LastFences();
      }
      fences.add(section);
    }
  }
  // Include paused holders, and holders of which it is not known when they held the lock.
  const granted = history.sections.filter(({ fence }) => fence !== undefined);
  for (const same of groupBy(granted, ({ key, fence }) => `${key} ${fence}`).values()) {
    const [first, ...others] = same.sort((a, b) => a.from - b.from);
    for (const other of others) {
      found.add(
        `${other.key}: ${at(other)} has the fence of ${at(first)}`,
        isForgotten(first.askedAt, other.from),
      );
    }
  }
  return found;
}

function guardedUpdates(history) {
  const found = new Findings();
  const excused = excuser(history, "mayLoseWrites");
  const { accepted, lost } = lostUpdates(history, "fenced");
  found.examined = accepted;
  for (const { update, by } of lost) {
    const [first, last] = [update, by].map((id) => history.section(id));
    found.add(
      `${first.key}: the update of ${at(first)} was lost by ${at(last)}`,
      excused(Math.min(first.from, last.from), Math.max(first.leftAt ?? 0, last.leftAt ?? 0)),
    );
  }
  return found;
}

/** Checks, with the records of an independent client, that no lock outlasts its holder. */
function nothingStaysLocked(history) {
  const found = new Findings();
  const excused = excuser(history, "mayLoseWrites", "mayShareLocks");
  const { ttlMs, toleranceMs, longestPauseMs } = history.run;
  const byFence = groupBy(history.sections, ({ key, fence }) => `${key} ${fence}`);
  for (const [name, looks] of groupBy(history.seen, ({ key, fence }) => `${key} ${fence}`)) {
    found.examined += 1;
    const times = looks.map(({ t }) => t);
    const lastSeen = times.reduce((a, b) => Math.max(a, b));
    const holders = byFence.get(name);
    // A holder that never used its lock was paused, was killed, or gave up.
    const goneAt = holders
      ? Math.max(...holders.map((section) => endOf(section, history)))
      : times.reduce((a, b) => Math.min(a, b)) + longestPauseMs;
    const late = lastSeen - goneAt - ttlMs - toleranceMs - NOISE_MS;
    if (late > 0) {
      const text = `${name}: still locked ${Math.round(late)} ms later than it may be`;
      // If fences began again, one fence belongs to two locks.
      found.add(text, excused(goneAt, lastSeen));
    }
  }
  for (const key of history.run.keys) {
    const had = history.sections.some((one) => one.key === key && one.from !== undefined);
    if (!had) found.add(`${key}: nobody ever had it`);
  }
  return found;
}

function endOf(section, { processes }) {
  return section.endedAt ?? processes.get(section.process)?.exitedAt ?? Infinity;
}

/** Applies to the function of `lock` only: after `hold`, a caller may be delayed. */
function startsHeld({ sections, pauses }) {
  const found = new Findings();
  const stops = pauses.filter(({ kind }) => kind === "stopped");
  for (const section of sections) {
    const { form, from, held, process } = section;
    if (form !== "lock" || from === undefined) continue;
    found.examined += 1;
    // The process was stopped between the library's last check and our first one.
    const isStopped = (stop) =>
      stop.process === process && stop.from <= from + NEAR_MS && stop.to >= from - NEAR_MS;
    if (!held && !stops.some(isStopped)) found.add(`${at(section)} began without its lock`);
  }
  return found;
}

function limits(history) {
  const found = new Findings();
  const { timeoutMs, operationMs } = history.run;
  const pauses = groupBy(history.pauses, ({ process }) => process);
  const look = (what, process, from, to, limitMs) => {
    if (from === undefined || to === undefined) return;
    found.examined += 1;
    if (to - from <= limitMs + NOISE_MS) return;
    const took = to - from - pausedBetween(pauses.get(process) ?? [], from, to);
    if (took > limitMs + NOISE_MS) {
      found.add(
        `${what} of ${process} at ${from} took ${Math.round(took)} ms, more than ${limitMs}`,
      );
    }
  };
  for (const section of history.sections) {
    const { process, askedAt, from, leftAt, endedAt } = section;
    look("the wait", process, askedAt, from ?? endedAt, timeoutMs);
    look("the release", process, leftAt, endedAt, operationMs);
  }
  // Ten seconds for held locks, and another ten for undos.
  for (const { process, from, to } of history.closes) look("the close", process, from, to, 20_000);
  return found;
}

function onlyLockErrors({ errors, quits }) {
  const found = new Findings();
  for (const { p, t, at: where, name, code, message } of [...errors, ...quits]) {
    found.examined += 1;
    if (name === "LockError" && EXPECTED.has(code)) continue;
    found.add(`${p} at ${t}, ${where}: ${name} ${code ?? ""} ${message ?? ""}`);
  }
  return found;
}

function noUnexpectedDeath({ processes }) {
  const found = new Findings();
  for (const { name, sent, code, signal, hung, said } of processes.values()) {
    found.examined += 1;
    if (hung) found.add(`${name} did not end when it was told to`);
    else if (signal === null && code !== 0) found.add(`${name} ended with ${code}: ${said}`);
    else if (signal && !sent.some((one) => one.signal === signal)) {
      found.add(`${name} died of ${signal}, which nobody sent`);
    } else if (signal === undefined) found.add(`${name} was never seen to end`);
  }
  return found;
}

/** Checks that aborted acquires left no lock, unless their process could not undo them. */
function undone(history) {
  const { run, left, processes, quits, faults } = history;
  const found = new Findings();
  // A failover may also lose a release.
  const isForgotten = faults.some(({ mayLoseWrites }) => mayLoseWrites);
  const unreleased = new Set(
    quits.filter(({ at: where }) => where === "release").map(({ k }) => k),
  );
  found.examined = quits.length;
  for (const key of left ?? []) {
    const isOfKilled =
      key.startsWith(run.undoPrefix) && isKilled(processes.get(key.slice(run.undoPrefix.length)));
    // Its holder was told that the release failed.
    if (isOfKilled || unreleased.has(key)) continue;
    found.add(`${key}: a lock was left`, isForgotten || isTakenBack(key, history));
  }
  return found;
}

const at = ({ id, fence }) => `${id} (fence ${Number(fence)})`;

export const PROMISES = {
  "one holder": oneHolder,
  "fences rise": risingFences,
  "no guarded update lost": guardedUpdates,
  "`fn` starts with its lock": startsHeld,
  "nothing stays locked": nothingStaysLocked,
  "no operation beyond its limit": limits,
  "only LockErrors": onlyLockErrors,
  "no unexpected death": noUnexpectedDeath,
  "the undo left nothing": undone,
};

/** Runs all checks. */
export function check(history) {
  const results = Object.entries(PROMISES).map(([name, look]) => ({ name, ...look(history) }));
  return { results, isKept: results.every(({ violations }) => violations.length === 0) };
}
