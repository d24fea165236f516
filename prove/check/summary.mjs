// Summarises a run as a plain object, from which the report is written.

import { CELLS } from "../register.mjs";
import { groupBy } from "./model.mjs";
import { unpromisedSeconds } from "./excuses.mjs";
import { check } from "./promises.mjs";
import { lostUpdates, pausedSections } from "./updates.mjs";

/** The classes of pause lengths, in TTLs. */
export const LENGTHS = [0.3, 0.6, 1, 1.5, 2, 2.5, 3];

/** How many examples of violations are kept. */
const EXAMPLES = 10;

/** The kinds of pauses. */
const KINDS = {
  "process stopped": ({ kind }) => kind === "stopped",
  "event loop blocked": ({ kind, autoExtend }) => kind === "blocked" && !autoExtend,
  "event loop blocked, `autoExtend`": ({ kind, autoExtend, disturbed }) =>
    kind === "blocked" && autoExtend && !disturbed,
  "event loop blocked, `autoExtend`, and another fault": ({ kind, autoExtend, disturbed }) =>
    kind === "blocked" && autoExtend && disturbed,
};

const counted = (list, field) =>
  Object.fromEntries([...groupBy(list, field)].map(([name, { length }]) => [name, length]).sort());

/** Counts pauses, and the updates that they lost. */
function tally(hits) {
  const lost = Object.fromEntries(
    CELLS.map((cell) => [cell, hits.reduce((sum, hit) => sum + hit.lost[cell], 0)]),
  );
  return { pauses: hits.length, lost };
}

/** @param {ReturnType<typeof import("./model.mjs").model>} history */
export function summarize(history) {
  const { run, sections, writes, faults, pauses } = history;
  const { results, isKept } = check(history);
  const { hits, unexplained, unpromised } = pausedSections(history, CELLS);
  const turns = sections.filter(({ from }) => from !== undefined);
  const bucket = ({ ttls }) => LENGTHS.findLastIndex((length) => ttls >= length || length === 0.3);
  return {
    ...{ backend: run.backend, seed: run.seed, seconds: run.seconds, ttlMs: run.ttlMs },
    ...{ processes: run.processes, workers: run.workers, keys: run.keys.length, notes: run.notes },
    isKept,
    unpromisedSeconds: Math.round(unpromisedSeconds(history)),
    turns: turns.length,
    autoExtended: turns.filter(({ autoExtend }) => autoExtend).length,
    observed: turns.filter(({ observed }) => observed).length,
    held: turns.filter(({ form }) => form === "hold").length,
    shared: turns.filter(({ limit }) => limit !== undefined).length,
    together: turns.filter(({ id }) => id.includes("+")).length,
    givenUp: history.quits.length,
    faults: counted(faults, ({ kind }) => kind),
    blocked: counted(
      pauses.filter(({ kind }) => kind === "blocked"),
      ({ place }) => place,
    ),
    errors: counted(history.errors, ({ code }) => code),
    promises: results.map(({ name, examined, violations, excused }) => ({
      ...{ name, examined, violations: violations.length, excused: excused.length },
      examples: [...violations, ...excused].slice(0, EXAMPLES),
    })),
    updates: Object.fromEntries(
      CELLS.map((cell) => {
        const { accepted, lost } = lostUpdates(history, cell);
        const refused = writes.filter((write) => write.refused.includes(cell)).length;
        return [
          cell,
          {
            ...{ accepted, refused, lost: lost.length },
            ...{ unexplained: unexplained[cell], unpromised: unpromised[cell] },
          },
        ];
      }),
    ),
    lengths: LENGTHS.slice(0, -1).map((from, index) => ({
      ...{ from, to: LENGTHS[index + 1] },
      ...tally(hits.filter((hit) => Math.min(bucket(hit), LENGTHS.length - 2) === index)),
    })),
    kinds: Object.entries(KINDS).map(([name, isOf]) => ({ name, ...tally(hits.filter(isOf)) })),
  };
}
