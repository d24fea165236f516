// Checks what processes recorded of their work under locks. The times are of one clock and lie between
// the grant and the release, so what overlaps here was held at the same time.

const isExclusive = ({ concurrency = 1, mode = "exclusive" }) =>
  concurrency === 1 && mode === "exclusive";

/** How many holders an attempt allows, with itself. */
const limitOf = ({ concurrency, mode }) => concurrency ?? (mode === "shared" ? Infinity : 1);

/**
 * Returns what must not happen, in words, and the largest number of holders of one key at a time.
 * @param {object[]} records
 * @returns {{ violations: string[], most: number }}
 */
export function examine(records) {
  const violations = records.filter(({ failed }) => failed).map(({ failed }) => failed);
  const byKey = new Map();
  for (const { locks = [], ...record } of records) {
    for (const { key, ...lock } of locks) {
      const holds = byKey.get(key) ?? [];
      byKey.set(key, holds);
      holds.push({ ...record, ...lock });
    }
  }
  let most = 0;
  for (const holds of byKey.values()) {
    const examined = examineKey(holds);
    violations.push(...examined.violations);
    most = Math.max(most, examined.most);
  }
  return { violations, most };
}

function examineKey(holds) {
  const violations = [];
  let most = 0;
  let inside = [];
  let [highest, lastExclusive] = ["", ""];
  holds.sort((a, b) => (a.enteredAt < b.enteredAt ? -1 : 1));
  if (new Set(holds.map(({ fence }) => fence)).size < holds.length) {
    violations.push("two grants have the same fence");
  }
  for (const hold of holds) {
    const { fence, slot, enteredAt } = hold;
    inside = inside.filter(({ leftAt }) => leftAt > enteredAt);
    const earlier = inside.filter((other) => other.fence < fence);
    if (inside.length > 0 && (isExclusive(hold) || inside.some(isExclusive))) {
      violations.push(`fence ${fence} was not alone, but one of them is exclusive`);
    }
    // Those that were granted before it had not left, so they counted when it was granted.
    if (earlier.length >= limitOf(hold)) {
      violations.push(
        `fence ${fence} joined ${earlier.length} holders with ${limitOf(hold)} allowed`,
      );
    }
    if (inside.some((other) => other.slot === slot)) {
      violations.push(`fence ${fence} got slot ${slot}, which was in use`);
    }
    if (!isExclusive(hold) && !(slot < limitOf(hold))) {
      violations.push(`fence ${fence} got slot ${slot} with ${limitOf(hold)} allowed`);
    }
    // Shared holders may begin in another order than they were granted in, but not across a writer.
    const last = isExclusive(hold) ? highest : lastExclusive;
    if (fence < last) violations.push(`fence ${fence} came after ${last}`);
    if (fence > highest) highest = fence;
    if (isExclusive(hold)) lastExclusive = fence;
    inside.push(hold);
    most = Math.max(most, inside.length);
  }
  return { violations, most };
}
