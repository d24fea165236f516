import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { createSqliteBackend } from "../../js/sqlite.js";
import { until } from "../fixtures/wait.js";
import { testFolder } from "../sqlite/folder.js";

const folder = testFolder();
const ROUNDS = 20;
const JUST_BEFORE = 5;

// The worker thread itself writes to the file, so it is most likely terminated during a write. The
// native call then returns to a thread that no longer runs JavaScript.
test("a lock that was returned to an ended thread is released", async () => {
  const path = folder.file();
  const backend = createSqliteBackend(path);
  let left = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const counter = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(new URL("./sqlite-worker.js", import.meta.url), {
      workerData: { path, counter, prefix: `${round}` },
      execArgv: [],
    });
    const exited = once(worker, "exit");
    await until(() => counter[0] > 10, "the worker to lock");
    await sleep(round % 7);
    await worker.terminate();
    await exited;
    const last = counter[0];
    expect(await backend.isLocked({ key: `${round}:${last - 1}` })).toBe(true);
    // The release may still be under way. It may also have been terminated after it had the lock, and
    // before it could count it: then the lock stays.
    await until(() =>
      backend.isLocked({ key: `${round}:${last}` }).then((locked) => !locked),
    ).catch(() => left++);
    if (left > JUST_BEFORE) break;
  }
  expect(left).toBeLessThanOrEqual(JUST_BEFORE);
}, 300_000);
