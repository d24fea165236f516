// Writes to the file without a pause.

import { open } from "./open.js";

const { path } = JSON.parse(process.argv[2]);
const backend = open({ path, durability: "full" });
const lane = async (_, index) => {
  for (;;) await (await backend.acquire({ key: `lane ${index}`, ttlMs: 60_000 })).release();
};
Array.from({ length: 8 }, lane);
process.send("writing");
