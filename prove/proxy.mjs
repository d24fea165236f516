// A proxy to a server on this host that can be slow, stop delivering in one or both directions, or
// break connections.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { now } from "./history.mjs";

/** One direction of a connection. Data arrives in order, however late. */
class Direction {
  #to;
  #rules;
  #queue = [];
  #timer;

  constructor(to, rules) {
    this.#to = to;
    this.#rules = rules;
  }

  push(data) {
    this.#queue.push({ data, due: now() + this.#rules.delayMs });
    this.flush();
  }

  flush() {
    clearTimeout(this.#timer);
    while (this.#queue.length > 0 && !this.#rules.silent) {
      const wait = this.#queue[0].due - now();
      if (wait > 0) {
        this.#timer = setTimeout(() => this.flush(), Math.ceil(wait));
        return;
      }
      if (!this.#to.destroyed) this.#to.write(this.#queue[0].data);
      this.#queue.shift();
    }
  }
}

export async function startProxy(port) {
  const links = new Set();
  const requests = { delayMs: 0, silent: false };
  const answers = { delayMs: 0, silent: false };
  const state = { halves: 0 };

  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    const up = new Direction(upstream, requests);
    const down = new Direction(client, answers);
    const link = {
      flush: () => [up, down].forEach((direction) => direction.flush()),
      reset() {
        client.resetAndDestroy();
        upstream.destroy();
      },
    };
    links.add(link);
    for (const socket of [client, upstream]) {
      socket.setNoDelay();
      socket.on("error", () => {});
      socket.on("close", () => {
        links.delete(link);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (data) => up.push(data));
    upstream.on("data", (data) => {
      if (state.halves === 0) return down.push(data);
      state.halves -= 1;
      client.write(data.subarray(0, data.length >> 1), () => link.reset());
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");

  return {
    port: server.address().port,
    delay(ms) {
      requests.delayMs = answers.delayMs = ms;
    },
    silence({ up = false, down = false }) {
      requests.silent = up;
      answers.silent = down;
    },
    /** Cuts off the next `count` answers half-way, together with their connections. */
    halve(count) {
      state.halves = count;
    },
    reset() {
      for (const link of links) link.reset();
    },
    /** Ends all faults. Data that was held back arrives now. */
    heal() {
      requests.delayMs = answers.delayMs = 0;
      requests.silent = answers.silent = false;
      state.halves = 0;
      for (const link of links) link.flush();
    },
    stop() {
      server.close();
      for (const link of links) link.reset();
    },
  };
}
