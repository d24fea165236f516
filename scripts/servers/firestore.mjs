import { join } from "node:path";
import { cargo, cargoTarget } from "../lib/run.mjs";
import { freePort } from "./ports.mjs";
import { controls, Server } from "./server.mjs";

/**
 * Builds the emulator, which is an example of the crate, and returns its path. The environment variable
 * shares the path between the processes of one test run.
 */
export async function buildFirestore({ release = false } = {}) {
  const variable = release ? "SYNCGUARD_EMULATOR_RELEASE" : "SYNCGUARD_EMULATOR";
  if (!process.env[variable]) {
    // An unoptimised build shares the crate with the tests. An optimised one omits unused features.
    const how = release ? ["--release", "--no-default-features"] : [];
    await cargo(["build", ...how, "--example", "firestore_emulator"], { stdio: ["ignore", 2, 2] });
    const profile = release ? "release" : "debug";
    process.env[variable] = join(cargoTarget, profile, "examples", "firestore_emulator");
  }
  return process.env[variable];
}

/** Starts the Firestore emulator. Its data is lost when it ends. */
export async function startFirestore({ release = false } = {}) {
  const program = await buildFirestore({ release });
  const port = await freePort();
  const server = new Server("firestore_emulator", program, ["--port", String(port)], {
    ready: /listening on/,
  });
  await server.start();
  return {
    server,
    port,
    host: `127.0.0.1:${port}`,
    /** Deletes all documents. */
    reset: () => fetch(`http://127.0.0.1:${port}/reset`, { method: "POST" }),
    ...controls(server),
  };
}
