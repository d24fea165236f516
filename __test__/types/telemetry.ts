// Events, and what a decorated backend is.

import { withTelemetry } from "syncguard";
import type { CustomLockBackend, LockBackend, LockErrorCode, LockEvent } from "syncguard";
import type { ManagedLockBackend, TelemetryOptions } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";
import type { MemoryCapabilities } from "syncguard/memory";

const backend = createMemoryBackend();
withTelemetry(backend, {
  onEvent: (event) => {
    event.result satisfies "ok" | "fail";
    event.reason satisfies "locked" | "expired" | "not-found" | undefined;
    event.durationMs satisfies number | undefined;
    event.attempts satisfies number | undefined;
    event.waitMs satisfies number | undefined;
    event.heldMs satisfies number | undefined;
    event.code satisfies LockErrorCode | undefined;
    event.backend satisfies string | undefined;
    event.name satisfies string | undefined;
    event.key satisfies string | undefined;
    if (event.type === "lost" || event.type === "heartbeat") return;
    event.type satisfies "acquire" | "release" | "extend" | "isLocked" | "lookup";
    // @ts-expect-error there is no such type
    if (event.type === "wait") return;
  },
  includeRaw: ({ type }) => type === "lost",
}) satisfies ManagedLockBackend<MemoryCapabilities>;

({ type: "acquire", result: "ok" }) satisfies LockEvent;
// @ts-expect-error an event has a result
({ type: "acquire" }) satisfies LockEvent;
// @ts-expect-error onEvent is needed
withTelemetry(backend, {});
// @ts-expect-error true, false or a function
({ onEvent: () => {}, includeRaw: "all" }) satisfies TelemetryOptions;

type Own = { supportsFencing: true; timeAuthority: "client" };
declare const own: CustomLockBackend<Own>;
withTelemetry(own, { onEvent: () => {} }) satisfies LockBackend<Own>;
// @ts-expect-error a hand-made backend has nothing to close
withTelemetry(own, { onEvent: () => {} }).close;
