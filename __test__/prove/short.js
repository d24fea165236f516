// Short runs of `npm run prove`. The seed of one that fails is in its message.

import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prove } from "../../prove/prove.mjs";

/** A small crowd, as other tests run beside it. */
const SIZE = { seconds: 15, processes: 3, workers: 6 };

export async function shortRun(backend, options) {
  const folder = mkdtempSync(join(tmpdir(), "syncguard-prove-"));
  try {
    return await prove({ backend, seed: String(randomInt(1e9)), folder, ...SIZE, ...options });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The promises that were broken, with the seed to repeat it. */
export const broken = ({ seed, promises }) =>
  promises
    .filter(({ violations }) => violations)
    .map(({ name, examples }) => `${name}, --seed ${seed}: ${examples.join("\n")}`);
