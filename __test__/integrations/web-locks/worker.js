// A process with a lock manager. It obeys the messages of its parent.

const { module, options } = JSON.parse(process.argv[2]);
const { createLockManager } = await import("../../../js/web-locks.js");
const { open } = await import(module);
const locks = createLockManager(await open(options), { ttlMs: 2_000 });

const releases = new Map();
const commands = {
  /** Holds a lock until it is told to release it. Resolves when it is held, or not available. */
  hold: ({ name, ...lockOptions }) =>
    new Promise((granted, failed) => {
      const released = locks.request(name, lockOptions, (lock) => {
        granted(lock !== null);
        return lock && new Promise((release) => releases.set(name, release));
      });
      released.then(
        () => process.send({ released: name }),
        (error) => {
          failed(error);
          process.send({ rejected: name, error: describe(error) });
        },
      );
    }),
  release: ({ name }) => releases.get(name)(),
  query: () => locks.query(),
};
const describe = ({ name, message, cause }) => ({ name, message, cause: cause?.code });

process.on("message", async ({ id, command, ...args }) => {
  try {
    process.send({ id, value: await commands[command](args) });
  } catch (error) {
    process.send({ id, error: describe(error) });
  }
});
process.send({ ready: true });
