import { afterAll, beforeAll, expect, test } from "vitest";
import { startRedis } from "../../scripts/servers.mjs";
import { prefix } from "../redis/open.js";
import { processEnd, start } from "./suite.js";

const module = new URL("../redis/open.js", import.meta.url).href;
const keyPrefix = prefix();

processEnd("redis", { module, options: () => ({ keyPrefix }), everyWay: true });

let server;
beforeAll(async () => void (server = await startRedis()));
afterAll(() => server.stop());

test("a server that does not answer does not delay the end of the process", async () => {
  const options = { target: server.url, keyPrefix };
  const { child, ended, said } = start({ module, options, end: "signal", config: { key: "k" } });
  expect(await said("ready")).toBe(true);
  server.suspend();
  try {
    child.kill("SIGTERM");
    // Half a second by design; operations and TTLs have far longer limits.
    const timer = new Promise((resolve) => setTimeout(resolve, 4000, "still there").unref());
    expect(await Promise.race([ended, timer])).toEqual({ code: null, signal: "SIGTERM" });
  } finally {
    server.resume();
    child.kill("SIGKILL");
    await ended;
  }
});
