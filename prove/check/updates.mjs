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
 * for it, by cell.
 */
export function pausedSections(history, cells) {
  const byProcess = groupBy(
    history.sections.filter(({ from }) => from !== undefined),
    ({ process }) => process,
  );
  const hits = [];
  const ofSection = new Map();
  for (const pause of history.pauses) {
    for (const section of byProcess.get(pause.process) ?? []) {
      if (section.from > pause.to || (section.leftAt ?? Infinity) < pause.from) continue;
      const hit = {
        ...pause,
        section: section.id,
        autoExtend: section.autoExtend,
        ttls: (pause.to - pause.from) / history.run.ttlMs,
        lost: Object.fromEntries(cells.map((cell) => [cell, 0])),
      };
      hits.push(hit);
      const before = ofSection.get(section.id);
      if (!before || before.ttls < hit.ttls) ofSection.set(section.id, hit);
    }
  }
  const unexplained = Object.fromEntries(cells.map((cell) => [cell, 0]));
  for (const cell of cells) {
    for (const { update, by } of lostUpdates(history, cell).lost) {
      const blamed = [by, update].map((id) => ofSection.get(id)).filter(Boolean);
      blamed.sort((a, b) => b.ttls - a.ttls);
      if (blamed.length > 0) blamed[0].lost[cell] += 1;
      else unexplained[cell] += 1;
    }
  }
  return { hits, unexplained };
}
