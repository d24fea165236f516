// Finds the updates of the register that were lost, and the pause that caused each loss.

import { excuser } from "./excuses.mjs";
import { groupBy } from "./model.mjs";

/**
 * The updates of a cell form a tree. Those on the path from the root to the last update took effect.
 * @returns {{ accepted: number, lost: { update: string, by: string }[] }} `by` is the update that
 *   overwrote the lost one
 */
export function lostUpdates({ writes }, cell) {
  const lost = [];
  let accepted = 0;
  const own = writes.filter(({ cells }) => cell in cells);
  for (const list of groupBy(own, ({ key }) => key).values()) {
    accepted += list.length;
    const parents = new Map();
    const depths = new Map([[null, 0]]);
    const lostBy = new Map();
    let last = null;
    for (const { section, cells } of list) {
      const parent = cells[cell];
      parents.set(section, parent);
      depths.set(section, depths.get(parent) + 1);
      let [gone, back] = [last, parent];
      while (gone !== back) {
        if (depths.get(gone) >= depths.get(back)) {
          lostBy.set(gone, section);
          gone = parents.get(gone);
        } else {
          lostBy.delete(back);
          back = parents.get(back);
        }
      }
      last = section;
    }
    for (const [update, by] of lostBy) lost.push({ update, by });
  }
  return { accepted, lost };
}

/**
 * Returns the sections that were paused between their read and their write, each with the number of
 * updates that it lost, by cell. `disturbed` means that there was another fault besides the pause.
 * Updates lost while nothing is guaranteed are counted separately, and their sections are left out.
 */
export function pausedSections(history, cells) {
  const nothing = () => Object.fromEntries(cells.map((cell) => [cell, 0]));
  const isUnpromised = excuser(history, "mayLoseWrites", "mayShareLocks");
  const hits = new Map();
  for (const { pause, section } of interruptions(history)) {
    if (isUnpromised(section.from, pause.to)) continue;
    hits.set(section.id, {
      ...pause,
      autoExtend: section.autoExtend,
      disturbed: isDisturbed(pause, history),
      ttls: (pause.to - pause.from) / history.run.ttlMs,
      lost: nothing(),
    });
  }
  const [unexplained, unpromised] = [nothing(), nothing()];
  for (const cell of cells) {
    for (const { update, by } of lostUpdates(history, cell).lost) {
      const sections = [by, update].map((id) => history.section(id));
      const blamed = sections
        .map(({ id, kept }) => ({ hit: hits.get(id), kept: kept ?? false }))
        .filter(({ hit }) => hit)
        // Blame the section that had lost its lock, or the longer pause if neither or both had.
        .sort((a, b) => Number(a.kept) - Number(b.kept) || b.hit.ttls - a.hit.ttls);
      if (isUnpromised(...spanOf(sections))) unpromised[cell] += 1;
      else if (blamed.length > 0) blamed[0].hit.lost[cell] += 1;
      else unexplained[cell] += 1;
    }
  }
  return { hits: [...hits.values()], unexplained, unpromised };
}

const spanOf = (sections) => [
  Math.min(...sections.map(({ from }) => from)),
  Math.max(...sections.map(({ from, leftAt }) => leftAt ?? from)),
];

/**
 * Merges the pauses of a section into one: a process may be stopped while its event loop is blocked,
 * and one pause may follow another.
 */
function* interruptions({ sections, pauses }) {
  const byProcess = groupBy(pauses, ({ process }) => process);
  for (const section of sections) {
    if (section.from === undefined) continue;
    const { process, from, leftAt = Infinity } = section;
    const own = (byProcess.get(process) ?? []).filter(
      (one) => one.to >= from && one.from <= leftAt,
    );
    if (own.length === 0) continue;
    const kind = own.some((one) => one.kind === "stopped") ? "stopped" : "blocked";
    const [begin, end] = [own.map((one) => one.from), own.map((one) => one.to)];
    yield {
      section,
      pause: { process, kind, from: Math.min(...begin), to: Math.max(...end) },
    };
  }
}

/** Whether the store, or the connection to it, was disturbed too. */
function isDisturbed(pause, { faults, run }) {
  const place = Number(pause.process.split(".")[0]);
  return faults.some(
    ({ lane, on, from, to }) =>
      lane === "store" &&
      (on?.includes(place) ?? true) &&
      from <= pause.to &&
      to >= pause.from - run.ttlMs,
  );
}
