// A proxy in front of a server that counts messages and can cut connections.

import { once } from "node:events";
import { connect, createServer } from "node:net";

const SSL_REQUEST = 80877103;

/** Forwards to `port`. `sent` are the kinds of the messages that clients sent, after their start. */
export async function startProxy(port) {
  const sockets = new Set();
  const state = { sent: [], turns: 0, loseAnswers: false };
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    let started = false;
    let rest = Buffer.alloc(0);
    let asking = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (data) => {
      if (!asking) state.turns += 1;
      asking = true;
      rest = Buffer.concat([rest, data]);
      for (;;) {
        const head = started ? 1 : 0;
        if (rest.length < head + 4) break;
        const length = rest.readUInt32BE(head) + head;
        if (rest.length < length) break;
        if (started) state.sent.push(String.fromCharCode(rest[0]));
        // Before the real start a client may ask for TLS.
        else started = rest.readUInt32BE(4) !== SSL_REQUEST;
        rest = rest.subarray(length);
      }
      upstream.write(data);
    });
    upstream.on("data", (data) => {
      asking = false;
      if (!state.loseAnswers) client.write(data);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(state, {
    port: server.address().port,
    /** What was sent since the last call, and in how many turns. */
    take() {
      const taken = { sent: state.sent.join(""), turns: state.turns };
      state.sent = [];
      state.turns = 0;
      return taken;
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  });
}
