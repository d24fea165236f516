// A registry in which this version is published. It has the tarballs as they would be released, and for
// platforms that were not built here a package without its addon. All other packages come from the registry
// that npm is set to.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { pack } from "../../scripts/lib/pack.mjs";
import { platformPackages } from "../../scripts/lib/packages.mjs";
import { ROOT } from "../fixtures/node.js";

/** The time of publication, for package managers that wait until a version is some days old. */
const PUBLISHED = "2025-01-01T00:00:00.000Z";

/** @param {string} folder for the tarballs */
export async function startRegistry(folder) {
  const packages = new Map((await release(folder)).map((one) => [one.name, one]));
  const upstream = npmSetting("registry").replace(/\/$/, "");
  const server = createServer((request, response) => {
    answer(packages, upstream, request, response).catch((error) => response.destroy(error));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    packages,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function release(folder) {
  const packed = await pack(folder);
  const names = packed.map(({ name }) => name);
  const others = platformPackages().filter(({ name }) => !names.includes(name));
  for (const { platform, name, manifest } of others) {
    const path = join(folder, `${platform}.tgz`);
    execFileSync("tar", ["-czf", path, "-C", join(ROOT, "npm"), platform]);
    packed.push({ name, manifest, path });
  }
  return packed;
}

export function npmSetting(name) {
  const shell = process.platform === "win32";
  return execFileSync("npm", ["config", "get", name], { encoding: "utf8", shell }).trim();
}

async function answer(packages, upstream, { url, headers }, response) {
  const [name, tarball] = decodeURIComponent(url).slice(1).split("/-/");
  const ours = packages.get(name);
  if (ours && tarball) return response.end(readFileSync(ours.path));
  if (ours) return response.end(JSON.stringify(packument(ours, `http://${headers.host}`)));
  const found = await fetch(upstream + url, { headers: { accept: headers.accept ?? "*/*" } });
  response.writeHead(found.status, { "content-type": found.headers.get("content-type") ?? "" });
  await pipeline(Readable.fromWeb(found.body), response);
}

function packument({ name, manifest, path }, origin) {
  const { version } = manifest;
  const integrity = `sha512-${createHash("sha512").update(readFileSync(path)).digest("base64")}`;
  const tarball = `${origin}/${name}/-/${name.split("/").at(-1)}-${version}.tgz`;
  return {
    name,
    "dist-tags": { latest: version },
    time: { created: PUBLISHED, modified: PUBLISHED, [version]: PUBLISHED },
    versions: { [version]: { ...manifest, dist: { tarball, integrity } } },
  };
}
