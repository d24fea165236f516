// One process of a run: its workers take turns on a few keys and write to the register under the lock.
// Start it with `fork(worker.mjs, [JSON])`. It ends when it receives any message.

import { setTimeout as sleep } from "node:timers/promises";
import { hold, lock, LockError, withTelemetry } from "../js/common.js";
import { openBackend } from "./backends.mjs";
import { now, Recorder } from "./history.mjs";
import { randomFrom } from "./random.mjs";
import { openRegister } from "./register-client.mjs";
import { Trouble } from "./trouble.mjs";

const job = JSON.parse(process.argv[2]);
const { process: name, seed, keys, semaphores, books, ttlMs, undoTtlMs, timeoutMs } = job;
const recorder = new Recorder(job.folder, `worker-${name}`);
const tell = (e, fields) => recorder.tell(e, { ...fields, p: name });

const ending = new AbortController();
process.on("message", () => ending.abort());
process.on("disconnect", () => process.exit(1)); // The parent process is gone.

const register = await openRegister(job.registerPort);
const backend = await openBackend(job.backend);
const trouble = new Trouble(randomFrom(`${seed} trouble ${name}`), job, tell);
const observed = withTelemetry(backend, {
  onEvent: ({ type, result }) => {
    if (type === "acquire" && result === "ok") trouble.meet("granted");
  },
});
const acquisition = { timeoutMs, maxRetries: Infinity, retryDelayMs: 20, maxDelayMs: 200 };

const failure = (error) => ({
  name: error instanceof LockError ? "LockError" : String(error?.stack ?? error),
  code: error?.code,
  message: error?.message,
});

/** Readers of a book: any number of them. */
const ANY_NUMBER = 1e9;

/**
 * Draws what a turn asks for: `keys`, and `limit`, the number of holders beside which it may hold them.
 * Without a limit it holds them alone.
 */
function draw(random) {
  const kind = random.real();
  if (semaphores.length > 0 && kind < 0.2) {
    const { key, limit } = random.pick(semaphores);
    // During a deployment that changes it, processes use different limits.
    return { keys: [key], limit: random.chance(0.2) ? limit + 1 : limit };
  }
  if (books.length > 0 && kind < 0.4) {
    const isReader = random.chance(0.8);
    return { keys: [random.pick(books)], limit: isReader ? ANY_NUMBER : undefined };
  }
  const count = kind > 0.85 ? 2 + random.below(2) : 1;
  return { keys: random.shuffled(keys).slice(0, count) };
}

/** The fields of the config for what was drawn. */
function accessOf({ keys, limit }) {
  if (keys.length > 1) return { keys };
  const [key] = keys;
  if (limit === undefined) return { key };
  return limit === ANY_NUMBER ? { key, mode: "shared" } : { key, concurrency: limit };
}

/** The work under the lock, with a section for each of its keys. */
async function turn(sections, context, random) {
  const from = now();
  // If the lock is held now, it was held at every moment since the grant.
  let believed = context.isHeld() ? from : undefined;
  const believe = () => {
    const at = now();
    if (!context.isHeld()) return false;
    believed = at;
    return true;
  };
  const { slot } = context;
  const parts = sections.map(({ section, key }) => ({
    section,
    // Holders that share a key write to places of their own, and their fences are checked there.
    place: slot === undefined ? key : `${key}#${slot}`,
    fence: context.fences ? context.fences[key] : context.fence,
  }));
  for (const { section, fence } of parts) {
    tell("in", { t: from, s: section, f: fence, slot, held: believed !== undefined });
  }
  const read = ({ place, fence }) => register.read({ key: place, fence });
  const seen = await Promise.all(parts.map(read));
  trouble.meet("inside");
  if (random.chance(0.5)) await sleep(random.below(4));
  const heeds = believe() && !(random.chance(0.5) && context.signal.aborted);
  trouble.meet("unseen");
  const write = ({ section, place, fence }, index) => {
    const { heeded, ...others } = seen[index];
    const updates = heeds && heeded !== undefined ? seen[index] : others;
    return register.write({ section, key: place, fence, from: updates });
  };
  await Promise.all(parts.map(write));
  const kept = believe();
  for (const { section } of parts) tell("out", { s: section, to: believed, kept });
}

const FORMS = {
  lock: (on, config, work) => lock(on, work, config),
  async hold(on, config, work) {
    const held = await hold(on, config);
    try {
      await work(held);
    } finally {
      await held.release();
    }
  },
};

/** Blocks the thread soon after the call, if that is due. */
function disturb(random, isObserved) {
  if (!isObserved) trouble.meet("granted");
  if (trouble.isDue("waiting")) setTimeout(() => trouble.meet("waiting"), random.below(30));
}

async function worker(number) {
  const random = randomFrom(`${seed} worker ${name}.${number}`);
  for (let count = 0; !ending.signal.aborted; count++) {
    const drawn = draw(random);
    const sections = drawn.keys.map((key, index) => ({
      section: `${name}.${number}.${count}${index ? `+${index}` : ""}`,
      key,
    }));
    const tellAll = (e, fields) => {
      for (const { section, key } of sections) tell(e, { s: section, ...fields?.(key) });
    };
    const form = random.pick(Object.keys(FORMS));
    const isObserved = random.chance(0.5);
    const config = {
      ...accessOf(drawn),
      ttlMs,
      autoExtend: random.chance(0.5),
      acquisition: { ...acquisition, signal: ending.signal },
      onReleaseError: (error) => tellAll("error", () => ({ at: "release", ...failure(error) })),
    };
    const { autoExtend: auto } = config;
    const { limit } = drawn;
    tellAll("ask", (k) => ({ k, limit, form, auto, observed: isObserved }));
    let isInside = false;
    const work = (context) => {
      isInside = true;
      return turn(sections, context, random);
    };
    try {
      const done = FORMS[form](isObserved ? observed : backend, config, work);
      disturb(random, isObserved);
      await done;
      tellAll("end");
    } catch (error) {
      tellAll("end");
      tellAll("error", () => ({ at: isInside ? "release" : "wait", ...failure(error) }));
      await sleep(50); // Avoid a busy loop while the store is unavailable.
    }
  }
}

/** Aborts acquires half-way. Their TTL is long, so a lock that one of them left would be noticed. */
async function quitter() {
  const random = randomFrom(`${seed} quitter ${name}`);
  const key = `${job.undoPrefix}${name}`;
  for (let count = 0; !ending.signal.aborted; count++) {
    const quitting = new AbortController();
    const timer = setTimeout(() => quitting.abort(), random.real(0, 6));
    const config = { key, ttlMs: undoTtlMs, signal: quitting.signal };
    let held;
    try {
      held = await (random.chance(0.5)
        ? backend.acquire(config)
        : hold(random.chance(0.5) ? backend : observed, { ...config, acquisition }));
      clearTimeout(timer);
      if (held.ok !== false) {
        await held.release();
        tell("gave", { k: key });
      }
    } catch (error) {
      tell("quit", { k: key, at: held ? "release" : "wait", ...failure(error) });
    }
    await sleep(random.below(100));
  }
}

tell("begin");
process.send("begun");
const workers = Array.from({ length: job.workers }, (_, number) => worker(number));
await Promise.all([...workers, quitter()]);
const from = now();
await backend.close();
tell("closed", { from });
register.close();
process.removeAllListeners("disconnect");
process.disconnect();
