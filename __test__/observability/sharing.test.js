// Events, traces, spans and metrics of locks that share their key.

import { tracingChannel } from "node:diagnostics_channel";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { forceRelease, hold, lock, tryHold, tryLock, withTelemetry } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { instrument } from "../../js/opentelemetry.js";
import { until } from "../fixtures/wait.js";

const key = "stripe";
const SHARED = { key, concurrency: 2 };
const MINUTE = { ttlMs: 60_000 };

let backend;
beforeEach(() => (backend = createMemoryBackend()));

/** What an event or a message says about how the key is shared. */
const shareOf = ({ type, mode, slot }) => [type, mode, slot];

describe("events", () => {
  let events, observed;
  beforeEach(() => {
    events = [];
    observed = withTelemetry(backend, { onEvent: (event) => events.push(event) });
  });

  test("of a hold have its mode and slot, from the grant to the release", async () => {
    await hold(backend, SHARED);
    const held = await hold(observed, SHARED);
    await held.extend(1_000);
    await held.release();
    expect(events.map(shareOf)).toEqual([
      ["acquire", "shared", 1],
      ["extend", "shared", 1],
      ["release", "shared", 1],
    ]);
  });

  test("of heartbeats and of a loss have them, too", async () => {
    await hold(observed, { ...SHARED, ttlMs: 300, autoExtend: true });
    await until(() => events.some(({ type }) => type === "heartbeat"), "a heartbeat");
    await forceRelease(backend, { key });
    await until(() => events.some(({ type }) => type === "lost"), "the loss");
    expect(new Set(events.map(({ mode, slot }) => `${mode} ${slot}`))).toEqual(
      new Set(["shared 0"]),
    );
  });

  test("of attempts that are refused have the mode", async () => {
    await hold(backend, { key });
    await tryLock(observed, () => {}, { key, mode: "shared" });
    await tryHold(observed, { keys: ["a", key], concurrency: 3 });
    await observed.acquire({ key, mode: "shared", ...MINUTE });
    expect(events.map(shareOf)).toEqual(Array(4).fill(["acquire", "shared", undefined]));
    expect(events.map(({ reason }) => reason)).toEqual(Array(4).fill("locked"));
  });

  test("of single operations have them as far as they are known", async () => {
    const handle = await observed.acquire({ ...SHARED, ...MINUTE });
    await handle.extend(1_000);
    await observed.extend({ lockId: handle.lockId, ttlMs: 1_000 });
    await handle.release();
    expect(events.map(shareOf)).toEqual([
      ["acquire", "shared", 0],
      ["extend", "shared", 0],
      ["extend", undefined, undefined],
      ["release", "shared", 0],
    ]);
  });

  test("of several keys have the slot of each", async () => {
    await hold(backend, { key: "b", mode: "shared" });
    await lock(observed, () => {}, { keys: ["a", "b"], concurrency: 2 });
    expect(events.map(shareOf)).toEqual([
      ["acquire", "shared", 0],
      ["acquire", "shared", 1],
      ["release", "shared", 0],
      ["release", "shared", 1],
    ]);
  });

  test("of exclusive locks have neither, and a single holder of one has a slot", async () => {
    await lock(observed, () => {}, { key });
    for (const event of events) expect(event).not.toHaveProperty("mode");
    for (const event of events) expect(event).not.toHaveProperty("slot");
    events.length = 0;
    await lock(observed, () => {}, { key, concurrency: 1 });
    expect(events.map(shareOf)).toEqual([
      ["acquire", undefined, 0],
      ["release", undefined, 0],
    ]);
  });

  test("of wrong options have no mode, and the operation reports them", async () => {
    const wrong = observed.acquire({ key, concurrency: 0, ...MINUTE });
    await expect(wrong).rejects.toMatchObject({ code: "InvalidArgument" });
    await expect(observed.acquire(null)).rejects.toMatchObject({ code: "InvalidArgument" });
    expect(events.map(({ mode, code }) => [mode, code])).toEqual([
      [undefined, "InvalidArgument"],
      [undefined, "InvalidArgument"],
    ]);
  });
});

describe("tracing channels", () => {
  const KINDS = ["acquire", "hold", "extend", "release"];
  let messages, unsubscribe;
  beforeEach(() => {
    messages = [];
    const subscriptions = KINDS.map((type) => {
      const channel = tracingChannel(`syncguard:${type}`);
      const note = (event) => (message) => messages.push({ type, event, ...message });
      const subscribers = { start: note("start"), asyncEnd: note("asyncEnd") };
      channel.subscribe(subscribers);
      return () => channel.unsubscribe(subscribers);
    });
    unsubscribe = () => subscriptions.forEach((end) => end());
  });
  afterEach(() => unsubscribe());

  const at = (event) => messages.filter((message) => message.event === event).map(shareOf);

  test.each([
    ["lock()", () => lock(backend, ({ extend }) => extend(1_000), SHARED)],
    [
      "a handle",
      async () => {
        const handle = await backend.acquire({ ...SHARED, ...MINUTE });
        await handle.extend(1_000);
        await handle.release();
      },
    ],
  ])("of %s: the mode from the start, the slot from the grant", async (_, use) => {
    await use();
    expect(at("start")).toEqual([
      ["acquire", "shared", undefined],
      ["hold", "shared", 0],
      ["extend", "shared", 0],
      ["release", "shared", 0],
    ]);
    expect(at("asyncEnd").sort()).toEqual(KINDS.map((kind) => [kind, "shared", 0]).sort());
  });

  test("of several keys: a slot in each hold, none in the wait", async () => {
    await lock(backend, () => {}, { keys: ["a", "b"], mode: "shared" });
    expect(at("start")).toEqual([
      ["acquire", "shared", undefined],
      ["hold", "shared", 0],
      ["hold", "shared", 0],
      ["release", "shared", 0],
      ["release", "shared", 0],
    ]);
    expect(at("asyncEnd")[0]).toEqual(["acquire", "shared", undefined]);
  });

  test("of an exclusive lock: neither", async () => {
    await lock(backend, () => {}, { key });
    expect(messages.length).toBeGreaterThan(4);
    for (const message of messages) {
      expect(Object.keys(message)).not.toEqual(expect.arrayContaining(["mode"]));
      expect(Object.keys(message)).not.toEqual(expect.arrayContaining(["slot"]));
    }
  });
});

describe("OpenTelemetry", () => {
  let spans, exporter, meterProvider, stop;
  beforeEach(() => {
    spans = new InMemorySpanExporter();
    const tracerProvider = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(spans)],
    });
    exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 });
    meterProvider = new MeterProvider({ readers: [reader] });
    stop = instrument({ tracerProvider, meterProvider });
  });
  afterEach(async () => {
    stop();
    await meterProvider.shutdown();
  });

  /** Returns the attributes of all data points, by metric. */
  async function points() {
    await meterProvider.forceFlush();
    const metrics = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics)
      .flatMap((scope) => scope.metrics);
    return metrics.flatMap(({ descriptor, dataPoints }) =>
      dataPoints.map(({ attributes, value }) => ({ name: descriptor.name, attributes, value })),
    );
  }

  test("spans have the mode and the slot, metrics only the mode", async () => {
    await hold(backend, SHARED);
    await lock(backend, () => {}, SHARED);
    await lock(backend, () => {}, { key: "alone" });
    const shares = spans
      .getFinishedSpans()
      .map(({ name, attributes }) => [
        name.replace("syncguard.", ""),
        attributes["syncguard.mode"],
        attributes["syncguard.slot"],
      ]);
    expect(shares.sort()).toEqual(
      [
        ["acquire", "shared", 0],
        ["acquire", "shared", 1],
        ["hold", "shared", 1],
        ["acquire", undefined, undefined],
        ["hold", undefined, undefined],
      ].sort(),
    );
    const found = await points();
    for (const { attributes } of found) expect(attributes).not.toHaveProperty("syncguard.slot");
    const modes = (name) =>
      Object.fromEntries(
        found
          .filter((point) => point.name === name)
          .map(({ attributes, value }) => [
            attributes["syncguard.mode"] ?? "exclusive",
            value.count ?? value,
          ]),
      );
    expect(modes("syncguard.lock.acquisitions")).toEqual({ shared: 2, exclusive: 1 });
    expect(modes("syncguard.lock.hold.duration")).toEqual({ shared: 1, exclusive: 1 });
    // Whoever no longer waits is subtracted where it was added.
    expect(modes("syncguard.lock.waiters")).toEqual({ shared: 0, exclusive: 0 });
  });
});
