// A proxy to a server whose connections can be cut.

import { once } from "node:events";
import { connect, createServer } from "node:net";

export async function startRelay(port) {
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(from);
      from.setNoDelay(true);
      from.pipe(to);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    host: `127.0.0.1:${server.address().port}`,
    cut,
    stop() {
      server.close();
      cut();
    },
  };
}
