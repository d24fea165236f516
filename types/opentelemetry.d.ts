// syncguard/opentelemetry: spans and metrics.

import type { MeterProvider, TracerProvider } from "@opentelemetry/api";

/** Options of `instrument()`. */
export interface InstrumentOptions {
  /** Receives spans. Default: the globally registered one. */
  tracerProvider?: TracerProvider | undefined;
  /** Receives metrics. Default: the globally registered one. */
  meterProvider?: MeterProvider | undefined;
}

/**
 * Records OpenTelemetry spans and metrics of all locks in this process until you call the function that
 * it returns. Throws "InvalidArgument" unless `@opentelemetry/api` (1.9 or a later 1.x) is installed.
 * No attribute contains a key, a lockId or a URL.
 *
 * @example
 * import { instrument } from "syncguard/opentelemetry";
 * instrument();
 */
export function instrument(options?: InstrumentOptions): () => void;
