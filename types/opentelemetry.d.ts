// syncguard/opentelemetry: spans and metrics.

import type { MeterProvider, TracerProvider } from "@opentelemetry/api";

/** Where spans and metrics go. */
export interface InstrumentOptions {
  /** Default: the one that is registered globally. */
  tracerProvider?: TracerProvider | undefined;
  /** Default: the one that is registered globally. */
  meterProvider?: MeterProvider | undefined;
}

/**
 * Makes OpenTelemetry spans and metrics of all locks of this process, until the function that it
 * returns is called. Needs `@opentelemetry/api`. No attribute has a key, a lockId or a URL.
 *
 * @example
 * import { instrument } from "syncguard/opentelemetry";
 * instrument();
 */
export function instrument(options?: InstrumentOptions): () => void;
