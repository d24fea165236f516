// The platforms of a release. package.json names them (`napi.targets`), the
// package and the scope; nothing of that stands anywhere else.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../lib/run.mjs";

/** What Rust and Node.js call the same thing. */
const CPUS = { x86_64: "x64", aarch64: "arm64" };
const SYSTEMS = { linux: "linux", darwin: "darwin", windows: "win32" };

/** Where it is built and tried: names of GitHub's machines. `image`: in a container there. */
const MACHINES = {
  "linux-x64-gnu": { builds: "ubuntu-latest", tries: "ubuntu-latest", servers: true },
  "linux-arm64-gnu": { builds: "ubuntu-latest", tries: "ubuntu-24.04-arm", servers: true },
  "linux-x64-musl": { builds: "ubuntu-latest", tries: "ubuntu-latest", image: "node:24-alpine" },
  "linux-arm64-musl": {
    builds: "ubuntu-latest",
    tries: "ubuntu-24.04-arm",
    image: "node:24-alpine",
  },
  "darwin-x64": { builds: "macos-latest", tries: "macos-15-intel", servers: true },
  "darwin-arm64": { builds: "macos-latest", tries: "macos-latest", servers: true },
  "win32-x64-msvc": { builds: "windows-latest", tries: "windows-latest" },
  "win32-arm64-msvc": { builds: "windows-latest", tries: "windows-11-arm" },
};

export function readProject(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** Every platform: its target, names, folder below npm/ and machines. */
export function platforms(folder) {
  const { napi } = readProject(folder);
  return napi.targets.map((target) => {
    const [cpu, , system, abi] = target.split("-");
    const os = SYSTEMS[system];
    const platform = [os, CPUS[cpu], abi].filter(Boolean).join("-");
    const machines = MACHINES[platform];
    if (!machines) throw new Failure(`There is no machine to build ${target} on.`);
    return {
      target,
      platform,
      os,
      cpu: CPUS[cpu],
      libc: { gnu: "glibc", musl: "musl" }[os === "linux" ? abi : ""],
      name: `${napi.packageName}-${platform}`,
      folder: join(folder, "npm", platform),
      addon: `${napi.binaryName}.${platform}.node`,
      ...machines,
    };
  });
}

export function platformOf(folder, target) {
  const found = platforms(folder).find((platform) => platform.target === target);
  if (found) return found;
  throw new Failure(`${target ?? "Nothing"} is not one of napi.targets in package.json.`);
}
