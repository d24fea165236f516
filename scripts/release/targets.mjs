// The platforms of a release, and the machines that build and test each of them.
import { platformPackages } from "../lib/packages.mjs";
import { Failure } from "../lib/run.mjs";

const ALPINE = "node:24-alpine";

/** GitHub's machines. `image` names a container for the trial; `servers` adds real servers to it. */
const MACHINES = {
  "linux-x64-gnu": { builds: "ubuntu-latest", tries: "ubuntu-latest", servers: true },
  "linux-arm64-gnu": { builds: "ubuntu-latest", tries: "ubuntu-24.04-arm", servers: true },
  "linux-x64-musl": { builds: "ubuntu-latest", tries: "ubuntu-latest", image: ALPINE },
  "linux-arm64-musl": { builds: "ubuntu-latest", tries: "ubuntu-24.04-arm", image: ALPINE },
  "darwin-x64": { builds: "macos-latest", tries: "macos-15-intel", servers: true },
  "darwin-arm64": { builds: "macos-latest", tries: "macos-latest", servers: true },
  "win32-x64-msvc": { builds: "windows-latest", tries: "windows-latest" },
  "win32-arm64-msvc": { builds: "windows-latest", tries: "windows-11-arm" },
};

/** Returns one entry for each platform, for the matrix of a workflow. */
export function plan(packages = platformPackages()) {
  return packages.map(({ target, platform }) => {
    const machines = MACHINES[platform];
    if (!machines) throw new Failure(`There is no machine to build ${platform} on.`);
    return { target, platform, servers: false, image: "", ...machines };
  });
}

/** Returns the package of a target. */
export function packageOf(target) {
  const found = platformPackages().find((each) => each.target === target);
  if (found) return found;
  throw new Failure(`${target ?? "Nothing"} is not one of napi.targets in package.json.`);
}
