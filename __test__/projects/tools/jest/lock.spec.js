const { lock } = require("syncguard");
const { createMemoryBackend } = require("syncguard/memory");

test("locks", async () => {
  const fence = await lock(createMemoryBackend(), (context) => context.fence, { key: "k" });
  expect(fence).toBe("000000000000001");
});
