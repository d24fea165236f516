// Runs very many operations in one process, and breaks its connections again and again.

import { fork } from "node:child_process";
import { once } from "node:events";
import { guardGroup, unguardGroup } from "../scripts/lib/keeper.mjs";
import { startProxy } from "./proxy.mjs";
import { STORES } from "./stores.mjs";

const WORKER = new URL("./endurance-worker.mjs", import.meta.url);

/** @param {{ backend: keyof typeof STORES, operations: number, seed: string }} options */
export async function endure({
  backend,
  operations,
  seed,
  lanes = 32,
  samples = 20,
  breakEveryMs = 5_000,
}) {
  const store = await STORES[backend]({ isKilled: false });
  let broken = 0;
  let proxy;
  let breaking;
  try {
    // Use a proxy only if the store cannot break connections, because a proxy takes time.
    if (store.port && !store.disconnect) proxy = await startProxy(store.port);
    const disconnect = store.disconnect ?? (proxy && (() => proxy.reset()));
    const opening = store.backend(proxy?.port ?? store.port);
    const job = { backend: opening, operations, lanes, seed, samples };
    const child = fork(WORKER, [JSON.stringify(job)], {
      execArgv: ["--expose-gc"],
      env: { ...process.env, NODE_ENV: "production" },
      detached: true,
    });
    guardGroup(child.pid);
    if (disconnect) {
      breaking = setInterval(async () => {
        broken += 1;
        await disconnect()?.catch(() => {}); // The server is busy: try again next time.
      }, breakEveryMs);
    }
    const ended = once(child, "exit");
    const [result] = await Promise.race([once(child, "message"), ended]);
    const [code, signal] = await ended;
    unguardGroup(child.pid);
    return { backend, operations, seed, broken, code, signal, ...result };
  } finally {
    clearInterval(breaking);
    proxy?.stop();
    await store.stop();
  }
}
