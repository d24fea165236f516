// The packed package in an empty project, on the platform it is for.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { npm, run } from "../lib/run.mjs";
import { startPostgres, startRedis } from "../servers.mjs";
import { tarball } from "./pack.mjs";
import { platformOf, readProject } from "./targets.mjs";

/** Installs it and runs the trial there, with real servers if there are to be any. */
export async function tryPackage(project, tarballs, target, { servers }) {
  const main = readProject(project);
  const platform = platformOf(project, target);
  const folder = mkdtempSync(join(tmpdir(), "syncguard-release-"));
  const files = [main.name, platform.name].map((name) => tarball(tarballs, name, main.version));
  const started = servers ? await Promise.all([startRedis(), startPostgres()]) : [];
  try {
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
    // The other platforms' packages are not published yet.
    const install = ["install", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"];
    await npm([...install, ...files], { cwd: folder });
    const program = join(folder, "smoke.mjs");
    copyFileSync(join(project, "scripts", "platforms", "smoke.mjs"), program);
    mkdirSync(join(folder, "files"));
    const [redis, postgres] = started.map(({ url }) => url);
    const job = { package: main.name, node: [process.execPath], redis, postgres };
    writeFileSync(
      join(folder, "job.json"),
      JSON.stringify({ ...job, folder: join(folder, "files") }),
    );
    await run(process.execPath, [program, join(folder, "job.json")], { cwd: folder });
  } finally {
    await Promise.all(started.map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
