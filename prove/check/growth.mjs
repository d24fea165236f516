// Checks whether a long run leaked anything in its process.

const MB = 1 << 20;

/** How much a process may grow between the first and the last quarter of the measurements. */
const LIMITS = {
  rss: 48 * MB,
  heapUsed: 4 * MB,
  external: 4 * MB,
  descriptors: 4,
  threads: 4,
  handles: 4,
};

const mean = (list) => list.reduce((sum, number) => sum + number, 0) / list.length;

/** @param {Awaited<ReturnType<typeof import("../endurance.mjs").endure>>} run */
export function growthOf({ measured, idle, closed, code, signal, ...run }) {
  if (code !== 0) return { ...run, isFlat: false, grew: [`it ended with ${signal ?? code}`] };
  const quarter = Math.max(1, measured.length >> 2);
  const names = Object.keys(LIMITS);
  const of = (samples) =>
    Object.fromEntries(names.map((name) => [name, mean(samples.map((one) => one[name]))]));
  const [first, last] = [of(measured.slice(0, quarter)), of(measured.slice(-quarter))];
  const grew = names.filter((name) => last[name] - first[name] > LIMITS[name]);
  if (idle.listeners > 0) grew.push("listeners");
  const { seconds } = measured.at(-1);
  return { ...run, isFlat: grew.length === 0, grew, seconds, first, last, idle, closed };
}
