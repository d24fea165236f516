import { lock, type Fence } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

test("locks", async () => {
  const fence: Fence = await lock(createMemoryBackend(), (context) => context.fence, { key: "k" });
  expect(fence).toBe("000000000000001");
});
