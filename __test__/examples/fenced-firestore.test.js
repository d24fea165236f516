// Tests the fenced write in Firestore.

import { randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import { PROJECT, google } from "../firestore/open.js";
import { fencedWrites } from "./fenced.js";

const firestore = google(process.env.FIRESTORE_EMULATOR_HOST);
afterAll(() => firestore.terminate());

fencedWrites("fenced-firestore", () => {
  const name = randomUUID();
  return {
    args: [name],
    env: { GOOGLE_CLOUD_PROJECT: PROJECT },
    stored: async () => (await firestore.doc(`reports/${name}`).get()).data(),
  };
});
