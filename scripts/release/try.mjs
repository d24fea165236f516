// Tests the packed package in an empty project, on its platform.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { manifest } from "../lib/packages.mjs";
import { npm, root, run } from "../lib/run.mjs";
import { startPostgres, startRedis } from "../servers.mjs";
import { tarball } from "./pack.mjs";
import { packageOf } from "./targets.mjs";

/** Installs the package and runs the trial, with real servers if requested. */
export async function tryPackage(target, packed, { servers }) {
  const { name } = manifest();
  const files = [name, packageOf(target).name].map((each) => tarball(packed, each));
  const folder = mkdtempSync(join(tmpdir(), "syncguard-release-"));
  const started = servers ? await Promise.all([startRedis(), startPostgres()]) : [];
  try {
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
    // Omit optional dependencies: the packages of the other platforms are not published yet.
    const quietly = ["--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"];
    await npm(["install", ...quietly, ...files], { cwd: folder });
    const [program, job] = ["smoke.mjs", "job.json"].map((file) => join(folder, file));
    copyFileSync(join(root, "scripts", "platforms", "smoke.mjs"), program);
    const [redis, postgres] = started.map(({ url }) => url);
    const place = join(folder, "files");
    mkdirSync(place);
    const description = { package: name, node: [process.execPath], folder: place, redis, postgres };
    writeFileSync(job, JSON.stringify(description));
    await run(process.execPath, [program, job], { cwd: folder });
  } finally {
    await Promise.all(started.map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
