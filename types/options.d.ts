// Options that the backends with connections share.

import type { BackendHooks } from "../index.js";

export interface ConnectionOptions extends BackendHooks {
  /** How long to wait for a connection, in milliseconds. */
  connectTimeoutMs?: number | undefined;
  /** How long to wait for an answer, in milliseconds: beyond it is a "NetworkTimeout". */
  operationTimeoutMs?: number | undefined;
}
