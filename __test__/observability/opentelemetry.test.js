// Spans and metrics, with the real SDK and in-memory exporters.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { context, metrics, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
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
import { afterEach, beforeEach, expect, test } from "vitest";
import { METRICS } from "../../js/base/metrics.js";
import { forceRelease, hold, lock, tryLock } from "../../js/index.js";
import { createMemoryBackend } from "../../js/memory.js";
import { instrument } from "../../js/opentelemetry.js";
import { ROOT } from "../fixtures/node.js";
import { NOISE_MS, until } from "../fixtures/wait.js";
import { setTimeout as sleep } from "node:timers/promises";

const key = "customer:secret:42";
let spans, tracerProvider, meterProvider, exporter, stop, backend;

beforeEach(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  spans = new InMemorySpanExporter();
  tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 });
  meterProvider = new MeterProvider({ readers: [reader] });
  stop = instrument({ tracerProvider, meterProvider });
  backend = createMemoryBackend();
});
afterEach(async () => {
  stop();
  await meterProvider.shutdown();
  context.disable();
  trace.disable();
  metrics.disable();
});

/** Returns the current data points of a metric. */
async function points({ name }) {
  exporter.reset();
  await meterProvider.forceFlush();
  const all = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics)
    .flatMap((scope) => scope.metrics);
  const found = all.find(({ descriptor }) => descriptor.name === name);
  return (found?.dataPoints ?? []).map(({ attributes, value }) => ({ attributes, value }));
}

const finished = (name) => spans.getFinishedSpans().filter((span) => span.name === name);

test("a wait and a hold are children of the caller's span", async () => {
  const tracer = tracerProvider.getTracer("program");
  const parent = tracer.startSpan("handler");
  await context.with(trace.setSpan(context.active(), parent), () =>
    lock(backend, () => sleep(30), { key, name: "report" }),
  );
  parent.end();
  const { spanId, traceId } = parent.spanContext();
  const [[wait], [held]] = [finished("syncguard.acquire"), finished("syncguard.hold")];
  for (const span of [wait, held]) {
    expect(span.parentSpanContext.spanId).toBe(spanId);
    expect(span.spanContext().traceId).toBe(traceId);
    expect(span.attributes).toMatchObject({
      "syncguard.backend": "memory",
      "syncguard.name": "report",
    });
  }
  expect(wait.attributes["syncguard.outcome"]).toBe("acquired");
  const [s, ns] = held.duration;
  expect(s * 1000 + ns / 1e6).toBeGreaterThanOrEqual(25);
});

test("histograms record the seconds of waiting and holding", async () => {
  const first = await hold(backend, { key });
  const waiting = lock(backend, () => sleep(50), { key });
  await sleep(200);
  await first.release();
  await waiting;
  const [waits] = await points(METRICS.wait);
  expect(waits.value.count).toBe(2);
  expect(waits.value.max).toBeGreaterThan(0.15);
  expect(waits.value.max).toBeLessThan(0.2 + NOISE_MS / 1000);
  const [holds] = await points(METRICS.hold);
  expect(holds.value).toMatchObject({ count: 2 });
  expect(holds.value.max).toBeGreaterThan(0.15);
  const operations = await points(METRICS.operation);
  const names = operations.map(({ attributes }) => attributes["syncguard.operation"]);
  expect(names.sort()).toEqual(["acquire", "release"]);
});

test("acquisitions are counted by outcome, and waiters while they wait", async () => {
  const held = await hold(backend, { key });
  await tryLock(backend, () => {}, { key });
  const acquisition = { timeoutMs: 80, retryDelayMs: 20 };
  const controller = new AbortController();
  const waits = [
    lock(backend, () => {}, { key, acquisition }),
    lock(backend, () => {}, { key, signal: controller.signal }),
  ];
  const outcomes = Promise.allSettled(waits);
  expect((await points(METRICS.waiters))[0].value).toBe(2);
  controller.abort();
  await outcomes;
  await held.release();
  const counted = (await points(METRICS.acquisitions)).map(({ attributes, value }) => [
    attributes["syncguard.outcome"],
    attributes["error.type"],
    value,
  ]);
  expect(counted.sort()).toEqual([
    ["aborted", "Aborted", 1],
    ["acquired", undefined, 1],
    ["locked", undefined, 1],
    ["timeout", "AcquisitionTimeout", 1],
  ]);
  expect((await points(METRICS.waiters))[0].value).toBe(0);
  const failed = finished("syncguard.acquire").filter(
    ({ status }) => status.code === SpanStatusCode.ERROR,
  );
  expect(failed.map(({ attributes }) => attributes["error.type"]).sort()).toEqual([
    "Aborted",
    "AcquisitionTimeout",
  ]);
});

test("lost locks are counted when they are lost", async () => {
  const held = await hold(backend, { key, autoExtend: true });
  await forceRelease(backend, { key });
  await until(async () => (await points(METRICS.lost))[0]?.value === 1, "the loss");
  await held.release();
  expect((await points(METRICS.lost))[0].value).toBe(1);
  expect(finished("syncguard.hold")[0].attributes["error.type"]).toBe("LockLost");
});

test("no attribute has a key, a lockId or a URL", async () => {
  await lock(backend, () => {}, { key });
  await expect(backend.acquire({ key, ttlMs: -1 })).rejects.toThrow();
  const attributes = spans.getFinishedSpans().map((span) => [span.name, span.attributes]);
  for (const metric of Object.values(METRICS)) attributes.push(await points(metric));
  const names = new Set(JSON.stringify(attributes).match(/"(syncguard\.\w+|error\.type)":/g));
  expect([...names].sort()).toEqual([
    '"error.type":',
    '"syncguard.backend":',
    '"syncguard.operation":',
    '"syncguard.outcome":',
  ]);
  expect(JSON.stringify(attributes)).not.toContain(key);
});

test("nothing is recorded after it was stopped", async () => {
  stop();
  await lock(backend, () => {}, { key });
  expect(spans.getFinishedSpans()).toEqual([]);
});

/** Returns the names that Prometheus uses. */
const prometheus = ({ name, unit, boundaries }) => {
  const base = name.replaceAll(".", "_");
  if (boundaries) return ["bucket", "sum", "count"].map((part) => `${base}_seconds_${part}`);
  return unit === "{caller}" ? [base] : [`${base}_total`];
};

test("the dashboard uses all metrics and no others", () => {
  const dashboard = JSON.parse(readFileSync(join(ROOT, "docs/grafana-dashboard.json"), "utf8"));
  expect(dashboard.panels.length).toBeGreaterThan(4);
  const asked = dashboard.panels
    .flatMap(({ targets }) => targets.map(({ expr }) => expr))
    .flatMap((expr) =>
      expr
        .match(/syncguard_[a-z_]+/g)
        .filter((name) => !/^syncguard_(backend|name|outcome|operation)$/.test(name)),
    );
  const known = Object.values(METRICS).map(prometheus);
  expect(asked.filter((name) => !known.flat().includes(name))).toEqual([]);
  const forgotten = known.filter((names) => !names.some((name) => asked.includes(name)));
  expect(forgotten).toEqual([]);
});

test("the documentation names every metric, with its unit", () => {
  const page = readFileSync(join(ROOT, "docs/observability.md"), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => /^\| `[a-z._]+` \| (counter|histogram|up-down)/.test(line));
  for (const { name, unit } of Object.values(METRICS)) {
    const row = rows.find((line) => line.startsWith(`| \`${name}\` |`));
    expect(row).toContain(`| \`${unit}\` |`);
  }
});
