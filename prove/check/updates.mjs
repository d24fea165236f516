// Which updates of the register were lost, and which pause is to blame.

import { groupBy } from "./model.mjs";

/**
 * The updates of a cell are a tree; those on the way from its root to its last are there.
 * @returns {{ accepted: number, lost: { update: string, by: string }[] }} `by`: the update after
 *   which it was not there any more
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
 * Pauses that fell between the read and the write of a section, each with how many updates were lost
 * for it, by cell. `disturbed`: more was wrong than the pause.
 */
export function pausedSections(history, cells) {
  const nothing = () => Object.fromEntries(cells.map((cell) => [cell, 0]));
  const hits = [];
  const longest = new Map();
  for (const { pause, section } of interruptions(history)) {
    const hit = {
      ...pause,
      autoExtend: section.autoExtend,
      disturbed: isDisturbed(pause, history),
      ttls: (pause.to - pause.from) / history.run.ttlMs,
      lost: nothing(),
    };
    hits.push(hit);
    if (!(longest.get(section.id)?.ttls > hit.ttls)) longest.set(section.id, hit);
  }
  const unexplained = nothing();
  for (const cell of cells) {
    for (const { update, by } of lostUpdates(history, cell).lost) {
      const blamed = [by, update]
        .map((id) => ({ hit: longest.get(id), kept: history.section(id).kept }))
        .filter(({ hit }) => hit)
        // Who had lost the lock, if one of them had; else the longer pause.
        .sort(
          (a, b) => Number(a.kept ?? false) - Number(b.kept ?? false) || b.hit.ttls - a.hit.ttls,
        );
      if (blamed.length > 0) blamed[0].hit.lost[cell] += 1;
      else unexplained[cell] += 1;
    }
  }
  return { hits, unexplained };
}

function* interruptions({ sections, pauses }) {
  const entered = sections.filter(({ from }) => from !== undefined);
  const byProcess = groupBy(entered, ({ process }) => process);
  for (const pause of pauses) {
    for (const section of byProcess.get(pause.process) ?? []) {
      const isHit = section.from <= pause.to && pause.from <= (section.leftAt ?? Infinity);
      if (isHit) yield { pause, section };
    }
  }
}

/** Whether the store, or the way to it, was disturbed too, or the process was paused otherwise. */
function isDisturbed(pause, { faults, pauses, run }) {
  const isNear = ({ from, to }) => from <= pause.to && to >= pause.from - run.ttlMs;
  return (
    faults.some((fault) => fault.lane === "store" && isNear(fault)) ||
    pauses.some((other) => other !== pause && other.process === pause.process && isNear(other))
  );
}
