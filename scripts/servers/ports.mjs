import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Returns a free port below the range that systems use for the local ports of outgoing connections.
 * Otherwise a client that retries a stopped server could occupy the server's port, or even connect to
 * itself.
 */
export async function freePort() {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(10_000, 30_000);
    if (await isFree(port)) return port;
  }
  throw new Error("no free port found");
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
