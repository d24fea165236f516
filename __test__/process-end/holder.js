// A process that holds a lock, prints "ready", and ends in the requested way.

import { hold, lead, lock } from "../../js/index.js";

const { module, options, form = "hold", config, end, locks = true } = JSON.parse(process.argv[2]);

/** The work under the lock, which is still running when the process ends. */
function work() {
  const alive = setInterval(() => {}, 1000);
  ENDS[end](alive);
  console.log("ready");
  if (end === "blocked") for (;;);
  return new Promise(() => {});
}

const ENDS = {
  "by itself": (alive) => clearInterval(alive),
  exit: () => setTimeout(() => process.exit(7), 10),
  "uncaught error": () =>
    setTimeout(() => {
      throw new Error("uncaught");
    }, 10),
  signal: () => {},
  blocked: () => {},
  handler: (alive) =>
    process.on("SIGTERM", () => {
      console.log("handled");
      // What an orderly end takes.
      setTimeout(() => clearInterval(alive), 300);
      process.exitCode = 3;
    }),
  "removed handler": () => {},
  // The signal meets the thread in the middle of an operation, with whatever that has locked.
  busy: async () => {
    for (let count = 0; ; count += 1) {
      const other = await backend.acquire({ key: `${config.key}:${count % 50}`, ttlMs: 1000 });
      await other.release();
    }
  },
};

const FORMS = {
  hold: (backend) => hold(backend, config).then(work),
  lock: (backend) => lock(backend, work, config),
  lead: (backend) => lead(backend, work, config),
};

let backend;
if (locks) {
  const { open } = await import(module);
  backend = await open(options);
  if (end === "removed handler") {
    await (await hold(backend, { key: "other" })).release();
    // With it goes what it had replaced. That is installed again when a lock is taken, once a second.
    const handler = () => {};
    process.on("SIGTERM", handler).off("SIGTERM", handler);
    await new Promise((resolve) => setTimeout(resolve, 1200));
  }
  await FORMS[form](backend);
} else {
  await work();
}
