// Measures the cost of the tracing channels without subscribers, compared with the same code without
// channels. Uses the memory backend, whose operations are cheapest, so that overhead shows most.
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../scripts/lib/run.mjs";
import { benchmark, standardScenarios } from "./lib/benchmark.mjs";
import { pairOf } from "./lib/pair.mjs";

/** The package without the check for subscribers. */
function withoutChannels() {
  const copy = join(root, "target", "without-channels");
  rmSync(copy, { recursive: true, force: true });
  for (const path of ["package.json", "js"]) {
    cpSync(join(root, path), join(copy, path), { recursive: true });
  }
  const tracing = join(copy, "js", "base", "tracing.js");
  const check = "return channels[kind].hasSubscribers;";
  const source = readFileSync(tracing, "utf8");
  if (!source.includes(check)) throw new Error("The check for subscribers was not found.");
  writeFileSync(tracing, source.replace(check, "return false;"));
  return copy;
}

async function contestant(name, folder) {
  const load = (file) => import(pathToFileURL(join(folder, "js", file)).href);
  const [{ createMemoryBackend }, { lock }] = [await load("memory.js"), await load("index.js")];
  const backend = createMemoryBackend();
  return {
    name,
    acquireRelease: pairOf(backend),
    runUnderLock: (key, fn) => lock(backend, fn, { key, ttlMs: 30_000 }),
    teardown: () => backend.close(),
  };
}

const without = await contestant("without channels", withoutChannels());
const contestants = [
  await contestant("with channels, no subscriber", root),
  { ...without, reference: true },
];

await benchmark({
  name: "tracing",
  title: "Tracing channels",
  contestants,
  scenarios: standardScenarios({ inFlight: [64] }),
});
