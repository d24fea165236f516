import { startFirestore } from "../../scripts/servers.mjs";
import { size } from "../fixtures/size.js";
import { until } from "../fixtures/wait.js";
import { handover } from "./suite.js";
import { startRelay } from "./relay.js";

async function start() {
  const server = await startFirestore();
  const relay = await startRelay(server.port);
  const calls = async () => (await fetch(`http://${server.host}/calls`)).json();
  return {
    config: { emulatorHost: relay.host },
    async cutWatchers() {
      await calls();
      relay.cut();
    },
    untilWatched: () => until(async () => (await calls()).includes("Listen"), "a stream"),
    commands: async () => (await calls()).length,
    restart: () => server.restart(),
    async stop() {
      relay.stop();
      await server.stop();
    },
  };
}

handover("Firestore", {
  module: new URL("../firestore/open.js", import.meta.url),
  start,
  toleranceMs: 1_000,
  rounds: size(200, 1_000),
});
