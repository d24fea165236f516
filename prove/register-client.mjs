// A worker's connection to the register.

import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";

export async function openRegister(port) {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.setNoDelay();
  const waiting = new Map();
  createInterface({ input: socket }).on("line", (line) => {
    const { n, ...answer } = JSON.parse(line);
    waiting.get(n)(answer);
    waiting.delete(n);
  });
  let count = 0;
  const ask = (name) => (request) =>
    new Promise((resolve) => {
      const n = count++;
      waiting.set(n, resolve);
      socket.write(`${JSON.stringify({ n, ask: name, ...request })}\n`);
    });
  return { read: ask("read"), write: ask("write"), close: () => socket.end() };
}
