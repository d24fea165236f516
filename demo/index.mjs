// Shows what SyncGuard is for: several processes increment the same counter, first without and then
// with the lock.
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { progressBar } from "./progress.mjs";

const PROCESSES = 4;
const ROUNDS = 50;
const TOTAL = PROCESSES * ROUNDS;
const worker = fileURLToPath(new URL("worker.mjs", import.meta.url));

const directory = mkdtempSync(join(tmpdir(), "syncguard-demo-"));
process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

console.log(`${PROCESSES} processes add 1 to the same counter, ${ROUNDS} times each.\n`);

const without = await compete("Without a lock", false);
console.log(
  `  the counter says ${without.counter}: ${TOTAL - without.counter} updates were lost\n`,
);

const guarded = await compete("With lock()   ", true);
const { counter, fences } = guarded;
console.log(`  the counter says ${counter}: ${TOTAL - counter} updates were lost`);
console.log(`  every holder got a higher fence: ${fences[0]} … ${fences.at(-1)}\n`);
console.log('  import { lock } from "syncguard";');
console.log('  await lock(async ({ fence }) => { … }, { key: "demo:counter" });');

const increasing = fences.every((fence, i) => i === 0 || fence > fences[i - 1]);
if (counter !== TOTAL || fences.length !== TOTAL || !increasing) {
  console.error("\nThe lock did not hold: this is a bug in SyncGuard.");
  process.exitCode = 1;
}

/** Starts the processes on a fresh counter and returns its final value and the fences. */
async function compete(label, withLock) {
  const counterFile = join(directory, `counter-${withLock}`);
  const fenceFile = join(directory, `fences-${withLock}`);
  writeFileSync(counterFile, "0".padStart(6));
  writeFileSync(fenceFile, "");
  const args = [counterFile, fenceFile, String(ROUNDS), String(withLock)];
  const children = Array.from({ length: PROCESSES }, () => fork(worker, args));
  process.once("exit", () => children.forEach((child) => child.kill()));
  const bar = progressBar(label, TOTAL);
  let steps = 0;
  let ready = 0;
  const onMessage = (message) => {
    if (message === "step") bar.update(++steps);
    else if (++ready === PROCESSES) children.forEach((child) => child.send("go"));
  };
  await Promise.all(
    children.map(
      (child) =>
        new Promise((resolve, reject) => {
          child.on("message", onMessage);
          child.on("exit", (code) =>
            code === 0 ? resolve() : reject(new Error(`A process of the demo failed (${code}).`)),
          );
        }),
    ),
  );
  bar.end(steps);
  return {
    counter: Number(readFileSync(counterFile, "utf8")),
    fences: readFileSync(fenceFile, "utf8").split("\n").filter(Boolean),
  };
}
