// The contract suite for people who write a backend.

import * as node from "node:test";
import * as vitest from "vitest";
import type { CustomLockBackend } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";
import { testBackend, type Behaviour, type TestBackendOptions } from "syncguard/testing";
import { BEHAVIOURS } from "../../js/testing/suite.js";

declare const fenceless: CustomLockBackend<{ supportsFencing: false; timeAuthority: "client" }>;

testBackend({ create: () => createMemoryBackend() });
testBackend({ create: async () => fenceless, supportsFencing: false });
testBackend({
  ...{ name: "mine", shared: false, ttlMs: 100, toleranceMs: 0, timeoutMs: 1000 },
  create: () => createMemoryBackend(),
  cleanUp: (backend) => backend.close({ timeoutMs: 0 }),
  skip: ["one-winner", "any-text"],
});

// The functions of each runner fit as they are.
testBackend({ create: () => fenceless, describe: node.describe, test: node.test });
testBackend({ create: () => fenceless, describe: vitest.describe, test: vitest.test });
testBackend({ create: () => fenceless, describe: vitest.describe.concurrent, test: vitest.it });

// @ts-expect-error without create there is nothing to test
testBackend({});
// @ts-expect-error no backend
testBackend({ create: () => ({}) });
// @ts-expect-error no such behaviour
testBackend({ create: () => fenceless, skip: ["two-winners"] });

const options: TestBackendOptions = { create: () => fenceless };
const behaviour: Behaviour = "expires";
console.log(options, behaviour, BEHAVIOURS);
