// Small projects in folders of their own, with the packages that their package managers
// install from the registry of the test.

import { exec, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { ROOT } from "../fixtures/node.js";
import { npmSetting, startRegistry } from "./registry.js";

const SAMPLES = join(ROOT, "__test__/projects");

export async function startWorkshop() {
  const folder = mkdtempSync(join(tmpdir(), "syncguard-projects-"));
  const registry = await startRegistry(join(folder, "tarballs"));
  const tools = join(folder, "tools", "node_modules");
  const env = {
    ...ownEnvironment(),
    PATH: [join(tools, ".bin"), process.env.PATH].join(delimiter),
    // Each has its own cache. A shared cache would still contain this version from an earlier run.
    ...{ npm_config_registry: registry.url, NPM_CONFIG_REGISTRY: registry.url },
    ...{ YARN_NPM_REGISTRY_SERVER: registry.url, YARN_UNSAFE_HTTP_WHITELIST: "127.0.0.1" },
    ...{ YARN_GLOBAL_FOLDER: join(folder, "stores/yarn"), YARN_ENABLE_TELEMETRY: "0" },
    ...{ BUN_INSTALL_CACHE_DIR: join(folder, "stores/bun"), DENO_DIR: join(folder, "stores/deno") },
    ...{ NEXT_TELEMETRY_DISABLED: "1", NO_COLOR: "1" },
  };
  return {
    folder,
    registry,
    /** Copies samples into one folder, in which commands can be run. */
    project(name, ...samples) {
      const path = join(folder, name);
      for (const sample of samples) cpSync(join(SAMPLES, sample), path, { recursive: true });
      const options = { cwd: path, env };
      return {
        path,
        run: (command) => run(command, options),
        ask: (args, path) => ask(args, path, options),
      };
    },
    close() {
      registry.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the environment without the variables of the runner and the npm that run this test. */
function ownEnvironment() {
  const foreign = /^(npm_|vitest|node_env$|node_options$|test$|prod$|dev$|ci$)/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}

/** Runs a command line, and returns its output. */
function run(command, options) {
  return new Promise((resolve, reject) => {
    const limits = { timeout: 500_000, maxBuffer: 1 << 26 };
    exec(command, { ...limits, ...options }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command}: ${error.signal ?? error.code}\n${stdout}${stderr}`));
      else resolve(stdout + stderr);
    });
  });
}

/** Starts a server with Node.js and asks it for one page. */
async function ask(args, path, { cwd, env }) {
  const port = await freePort();
  const options = { cwd, env: { ...env, PORT: String(port) }, stdio: "ignore" };
  const server = spawn(process.execPath, args, options);
  try {
    for (let tries = 0; tries < 600; tries += 1) {
      if (server.exitCode !== null) break;
      const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
      if (answer) return await answer.text();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${args.join(" ")} does not answer`);
  } finally {
    server.kill("SIGKILL");
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

export async function registryAnswers() {
  return fetch(npmSetting("registry")).then(
    () => true,
    () => false,
  );
}

/** Returns the code below a heading of the page about bundlers, so that the test uses exactly that. */
export function documented(heading) {
  const page = readFileSync(join(ROOT, "docs/bundlers.md"), "utf8");
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`));
  const [, code] = section?.match(/^```\w+\n(.*?)^```$/ms) ?? [];
  if (!code) throw new Error(`docs/bundlers.md shows no code for ${heading}`);
  if (code.trim().split("\n").length > 3) throw new Error(`${heading} needs more than three lines`);
  return code;
}
