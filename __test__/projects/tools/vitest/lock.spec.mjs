import { lock } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";
import { expect, test } from "vitest";

test("locks", async () => {
  const fence = await lock(createMemoryBackend(), (context) => context.fence, { key: "k" });
  expect(fence).toBe("000000000000001");
});
