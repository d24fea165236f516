// The module, the service and the decorators inside one process: what an application with a server does
// not show.

import "reflect-metadata";
import { Injectable, Module, SetMetadata } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { of } from "rxjs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { LockError } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import {
  CurrentLock,
  Lock,
  LockService,
  SyncGuardHealthIndicator,
  SyncGuardModule,
  TryLock,
} from "../../js/nestjs.js";
import { createSqliteBackend } from "../../js/sqlite.js";
import { testFolder } from "../sqlite/folder.js";

const folder = testFolder();
const applications = [];
afterEach(() => Promise.all(applications.splice(0).map((app) => app.close())));

/** Starts an application without a server. */
async function start(imports, providers = []) {
  class AppModule {}
  Module({ imports, providers })(AppModule);
  const options = { logger: false, abortOnError: false };
  const app = await NestFactory.createApplicationContext(AppModule, options);
  applications.push(app);
  return app;
}

/** A class with one method, decorated as TypeScript does it: from the last decorator to the first. */
function classWith(method, ...decorators) {
  class Jobs {}
  const descriptor = { value: method, writable: true, configurable: true };
  const decorated = Reflect.decorate(decorators, Jobs.prototype, method.name, descriptor);
  Object.defineProperty(Jobs.prototype, method.name, decorated);
  Injectable()(Jobs);
  return Jobs;
}

async function instanceOf(Jobs, backend = createMemoryBackend()) {
  const app = await start([SyncGuardModule.forRoot({ backend })], [Jobs]);
  return app.get(Jobs);
}

describe("the application's end", () => {
  test("releases what is held and closes the backend", async () => {
    const path = folder.file();
    const app = await start([
      SyncGuardModule.forRoot({ url: `sqlite:${path}`, closeTimeoutMs: 50 }),
    ]);
    const locks = app.get(LockService);
    const held = await locks.hold({ key: "kept" });
    const seen = createSqliteBackend(path);
    expect(await seen.isLocked({ key: "kept" })).toBe(true);
    await app.close();
    expect(await seen.isLocked({ key: "kept" })).toBe(false);
    expect(held.isHeld()).toBe(false);
    await expect(locks.tryHold({ key: "k" })).rejects.toBeInstanceOf(LockError);
    await seen.close();
  });

  test("waits for a method that runs, and closes a backend of its own", async () => {
    const backend = createMemoryBackend();
    let finish;
    const work = new Promise((resolve) => (finish = resolve));
    const Jobs = classWith({ run: () => work }.run, Lock({ key: "k" }));
    const jobs = await instanceOf(Jobs, backend);
    const running = jobs.run();
    await vi.waitFor(async () => expect(await backend.isLocked({ key: "k" })).toBe(true));
    const closed = applications[0].close();
    finish("done");
    expect(await running).toBe("done");
    await closed;
    await expect(backend.acquire({ key: "k", ttlMs: 1000 })).rejects.toBeInstanceOf(LockError);
  });
});

describe("the module", () => {
  test("opens the backend of a URL, of options, of a factory, or the default one", async () => {
    for (const module of [
      SyncGuardModule.forRoot("memory:"),
      SyncGuardModule.forRoot(new URL("memory:")),
      SyncGuardModule.forRoot({ url: "memory:" }),
      SyncGuardModule.forRootAsync({ useFactory: async () => "memory:" }),
    ]) {
      const { backend } = (await start([module])).get(LockService);
      expect(backend.capabilities.backend).toBe("memory");
    }
    const { backend } = (await start([SyncGuardModule.forRoot()])).get(LockService);
    expect(backend.capabilities.backend).toBe("sqlite");
  });

  test("passes the options of the backend on", async () => {
    const url = `sqlite:${folder.file()}`;
    const wrong = SyncGuardModule.forRoot({ url, options: { durabilty: "full" } });
    await expect(start([wrong])).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(/did you mean "durability"/),
    });
  });

  test.each([
    [[undefined], /target is undefined. Check the environment variable/],
    [[null], /target is null/],
    [[{ url: undefined }], /option url is undefined/],
    [[{ backend: undefined }], /option backend is undefined/],
    [[{ uri: "memory:" }], /Unknown option "uri": did you mean "url"\?/],
    [[{ url: "memory:", backend: createMemoryBackend() }], /both url and backend/],
    [[{ backend: {} }], /must be a backend/],
    [[createMemoryBackend()], /pass it as \{ backend \}/],
    [[7], /neither a URL nor options/],
    [[{ closeTimeoutMs: -1 }], /closeTimeoutMs must be a positive integer/],
  ])("refuses %j", (args, message) => {
    expect(() => SyncGuardModule.forRoot(...args)).toThrow(
      expect.objectContaining({ code: "InvalidArgument", message: expect.stringMatching(message) }),
    );
  });

  test("refuses a factory that is missing, or that returns undefined", async () => {
    expect(() => SyncGuardModule.forRootAsync({})).toThrow(/got no useFactory/);
    const wrong = SyncGuardModule.forRootAsync({ useFactory: () => undefined });
    await expect(start([wrong])).rejects.toMatchObject({ code: "InvalidArgument" });
  });

  test("gives each application of a process its own backend", async () => {
    const Jobs = classWith(
      {
        async run(lock) {
          return lock.lockId;
        },
      }.run,
      Lock({ key: "k" }),
      (target, name) => CurrentLock()(target, name, 0),
    );
    const backends = [createMemoryBackend(), createMemoryBackend()];
    const [one, other] = await Promise.all(backends.map((backend) => instanceOf(Jobs, backend)));
    const { release } = await backends[0].acquire({ key: "k", ttlMs: 60_000 });
    const waiting = one.run();
    expect(await other.run()).toHaveLength(22);
    await release();
    expect(await waiting).toHaveLength(22);
  });

  test("has a service with all forms", async () => {
    const locks = (await start([SyncGuardModule.forRoot("memory:")])).get(LockService);
    const key = "k";
    expect(await locks.lock(({ fence }) => fence, { key })).toBe("000000000000001");
    expect(await locks.tryLock(() => 1, { key })).toEqual({ ok: true, value: 1 });
    const held = await locks.hold({ key });
    expect(await locks.tryHold({ key })).toBeNull();
    expect(await locks.tryLock(() => 1, { key })).toEqual({ ok: false, reason: "locked" });
    await held.release();
    expect(await locks.lead(() => "led", { key })).toBe("led");
  });
});

describe("the decorators", () => {
  test("keep metadata, name, length and properties, whichever comes first", async () => {
    const method = {
      async run(one, two) {
        return [one, two];
      },
    }.run;
    method.label = "attached";
    const Jobs = classWith(
      method,
      SetMetadata("above", 1),
      Lock({ key: "k" }),
      SetMetadata("below", 2),
    );
    const { run } = Jobs.prototype;
    expect(Reflect.getMetadata("above", run)).toBe(1);
    expect(Reflect.getMetadata("below", run)).toBe(2);
    expect([run.name, run.length, run.label]).toEqual(["run", 2, "attached"]);
    expect(await (await instanceOf(Jobs)).run(1, 2)).toEqual([1, 2]);
  });

  test("take the key from a function of the arguments, with the instance as `this`", async () => {
    const backend = createMemoryBackend();
    const lock = vi.spyOn(LockService.prototype, "lock");
    const Jobs = classWith(
      {
        async run(id) {
          return id;
        },
      }.run,
      Lock({
        key(id) {
          return `${this.constructor.name}:${id}`;
        },
        throwIfLost: true,
      }),
    );
    const jobs = await instanceOf(Jobs, backend);
    await jobs.run(7);
    const [[, config]] = lock.mock.calls;
    lock.mockRestore();
    expect(config).toEqual({ key: "Jobs:7", name: "Jobs.run", throwIfLost: true });
  });

  test("throw what the key's function and the method throw, also an AcquisitionTimeout", async () => {
    const own = new LockError("AcquisitionTimeout", "of another lock");
    const ifBusy = vi.fn();
    const Failing = classWith(
      {
        async run() {
          throw own;
        },
      }.run,
      Lock({ key: "k", ifBusy }),
    );
    await expect((await instanceOf(Failing)).run()).rejects.toBe(own);
    expect(ifBusy).not.toHaveBeenCalled();
    const noId = new TypeError("no id");
    const key = () => {
      throw noId;
    };
    const Keyless = classWith({ async run() {} }.run, Lock({ key }));
    await expect((await instanceOf(Keyless)).run()).rejects.toBe(noId);
  });

  test("return undefined if the lock is busy and there is no ifBusy; @Lock then rejects", async () => {
    const backend = createMemoryBackend();
    await backend.acquire({ key: "k", ttlMs: 60_000 });
    const run = vi.fn();
    const Tries = classWith({ run: async () => run() }.run, TryLock({ key: "k" }));
    expect(await (await instanceOf(Tries, backend)).run()).toBeUndefined();
    const waits = Lock({ key: "k", acquisition: { timeoutMs: 20 } });
    const Waits = classWith({ run: async () => run() }.run, waits);
    await expect((await instanceOf(Waits, backend)).run()).rejects.toMatchObject({
      code: "AcquisitionTimeout",
    });
    expect(run).not.toHaveBeenCalled();
  });

  test("refuse a method whose work begins when it has returned", async () => {
    const Streams = classWith({ run: () => of(1) }.run, Lock({ key: "k" }));
    await expect((await instanceOf(Streams)).run()).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(/^Jobs\.run returned an Observable/),
    });
  });

  test("explain what is wrong if Nest did not create the instance", async () => {
    const Jobs = classWith({ async run() {} }.run, Lock({ key: "k" }));
    await expect(new Jobs().run()).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(/^Jobs\.run has @Lock\(\) but no LockService/),
    });
  });

  test("need the module", async () => {
    const Jobs = classWith({ async run() {} }.run, Lock({ key: "k" }));
    await expect(start([], [Jobs])).rejects.toThrow(/can't resolve dependencies of the Jobs/);
  });

  test("use a LockService that a test provides", async () => {
    const Jobs = classWith({ run: async () => "ran" }.run, TryLock({ key: "k" }));
    const tryLock = vi.fn(async (fn) => ({ ok: true, value: await fn({}) }));
    const app = await start([], [Jobs, { provide: LockService, useValue: { tryLock } }]);
    expect(await app.get(Jobs).run()).toBe("ran");
    expect(tryLock).toHaveBeenCalledOnce();
  });

  test.each([
    [() => Lock({}), /Pass \{ key \}/],
    [() => Lock("k"), /Pass \{ key \}/],
    [() => TryLock({ key: 7 }), /@TryLock\(\) got no key/],
    [() => TryLock({ key: "k", ifBusy: 409 }), /ifBusy of @TryLock\(\) must be a function/],
    [() => Lock({ key: "k" })({}, "field"), /is not on an instance method/],
    [() => Lock({ key: "k" })(class {}, "run", { value() {} }), /is not on an instance method/],
  ])("refuse wrong uses at once: %s", (use, message) => {
    expect(use).toThrow(
      expect.objectContaining({ code: "InvalidArgument", message: expect.stringMatching(message) }),
    );
  });
});

test("the health indicator reports a store that does not reply in time", async () => {
  const backend = { ...createMemoryBackend() };
  backend.isLocked = ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const app = await start([SyncGuardModule.forRoot({ backend })]);
  const indicator = app.get(SyncGuardHealthIndicator);
  expect(await indicator.pingCheck("locks", { timeoutMs: 20 })).toEqual({
    locks: { status: "down", message: "No reply within 20 ms" },
  });
});
