// syncguard/opentelemetry: spans and metrics, recorded from the tracing channels.

import { tracingChannel } from "node:diagnostics_channel";
import { METRICS } from "./base/metrics.js";
import { loadApi } from "./base/opentelemetry-api.js";
import { VERSION } from "./native/platforms.js";

/** @import { Meter, Span } from "@opentelemetry/api" */
/** @import { LockTrace } from "../index.js" */
/** @import { InstrumentOptions } from "../types/opentelemetry.js" */

const SCOPE = "syncguard";

/**
 * Starts recording spans and metrics of all locks of this process.
 * @param {InstrumentOptions} [options]
 * @returns {() => void} ends it
 */
export function instrument(options = {}) {
  const { context, metrics, SpanStatusCode, trace } = loadApi();
  const { tracerProvider = trace, meterProvider = metrics } = options;
  const tracer = tracerProvider.getTracer(SCOPE, VERSION);
  const meter = meterProvider.getMeter(SCOPE, VERSION);
  const waits = histogram(meter, "wait");
  const holds = histogram(meter, "hold");
  const operations = histogram(meter, "operation");
  const acquisitions = counter(meter, "acquisitions");
  const losses = counter(meter, "lost");
  const waiters = meter.createUpDownCounter(METRICS.waiters.name, METRICS.waiters);

  /** The spans that have not ended yet, by the message of their operation.
   * @type {WeakMap<LockTrace, Span>} */
  const spans = new WeakMap();

  /**
   * @param {string} name
   * @param {LockTrace} message
   */
  function open(name, message) {
    // The active context is the caller's, because a channel publishes a start where it happens.
    const attributes = { ...attributesOf(message), ...slotOf(message) };
    const span = tracer.startSpan(name, { attributes }, context.active());
    spans.set(message, span);
  }

  /** @param {LockTrace} message */
  function end(message) {
    const span = spans.get(message);
    if (span === undefined) return;
    spans.delete(message);
    if (message.error !== undefined) {
      span.setAttribute("error.type", errorType(message));
      span.setStatus({ code: SpanStatusCode.ERROR, message: message.error.message });
    }
    span.end();
  }

  /** @param {string} operation */
  const measured = (operation) => (/** @type {LockTrace} */ message) =>
    operations.record(seconds(message.durationMs), {
      ...attributesOf(message),
      "syncguard.operation": operation,
    });
  const measureAcquire = measured("acquire");

  const subscriptions = {
    acquire: {
      start(/** @type {LockTrace} */ message) {
        waiters.add(1, ownerOf(message));
        open("syncguard.acquire", message);
      },
      asyncEnd(/** @type {LockTrace} */ message) {
        waiters.add(-1, ownerOf(message));
        waits.record(seconds(message.waitMs ?? message.durationMs), attributesOf(message));
        acquisitions.add(1, { ...attributesOf(message), "syncguard.outcome": outcomeOf(message) });
        measureAcquire(message);
        spans.get(message)?.setAttributes({
          "syncguard.outcome": outcomeOf(message),
          ...slotOf(message),
        });
        end(message);
      },
    },
    hold: {
      start: (/** @type {LockTrace} */ message) => open("syncguard.hold", message),
      error(/** @type {LockTrace} */ message) {
        if (message.code === "LockLost") losses.add(1, ownerOf(message));
      },
      asyncEnd(/** @type {LockTrace} */ message) {
        holds.record(seconds(message.durationMs), attributesOf(message));
        end(message);
      },
    },
    release: { asyncEnd: measured("release") },
    extend: { asyncEnd: measured("extend") },
  };

  const entries = Object.entries(subscriptions).map(
    ([kind, subscribers]) =>
      /** @type {const} */ ([tracingChannel(`syncguard:${kind}`), subscribers]),
  );
  for (const [channel, subscribers] of entries) channel.subscribe(/** @type {any} */ (subscribers));
  return () => {
    for (const [channel, subscribers] of entries) {
      channel.unsubscribe(/** @type {any} */ (subscribers));
    }
  };
}

/**
 * @param {Meter} meter
 * @param {"wait" | "hold" | "operation"} which
 */
function histogram(meter, which) {
  const { name, description, unit, boundaries } = METRICS[which];
  return meter.createHistogram(name, {
    ...{ description, unit },
    advice: { explicitBucketBoundaries: [...boundaries] },
  });
}

/**
 * @param {Meter} meter
 * @param {"acquisitions" | "lost"} which
 */
function counter(meter, which) {
  return meter.createCounter(METRICS[which].name, METRICS[which]);
}

/** @param {LockTrace} message */
function ownerOf({ backend, name, mode }) {
  /** @type {Record<string, string>} */
  const attributes = {};
  if (backend !== undefined) attributes["syncguard.backend"] = backend;
  if (name !== undefined) attributes["syncguard.name"] = name;
  if (mode !== undefined) attributes["syncguard.mode"] = mode;
  return attributes;
}

/**
 * Returns the slot as an attribute of spans. Metrics do not have it, because each slot would be a series
 * of its own.
 * @param {LockTrace} message
 */
function slotOf({ slot }) {
  return slot === undefined ? {} : { "syncguard.slot": slot };
}

/** @param {LockTrace} message */
function attributesOf(message) {
  const attributes = ownerOf(message);
  if (message.error !== undefined) attributes["error.type"] = errorType(message);
  return attributes;
}

/** @param {LockTrace} message */
function errorType({ code }) {
  return code ?? "_OTHER";
}

/** @param {LockTrace} message */
function outcomeOf({ result, error, code }) {
  if (error === undefined) return result === "ok" ? "acquired" : "locked";
  if (code === "AcquisitionTimeout") return "timeout";
  return code === "Aborted" ? "aborted" : "error";
}

/** @param {number | undefined} ms */
function seconds(ms = 0) {
  return ms / 1000;
}
