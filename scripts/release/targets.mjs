// The platforms of a release, and where each is built and tried.
import { platformPackages } from "../lib/packages.mjs";
import { Failure } from "../lib/run.mjs";

const ALPINE = "node:24-alpine";

/** Names of GitHub's machines. `image`: tried in a container there; `servers`: with real ones. */
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

/** One entry for each platform, as a workflow's matrix takes it. */
export function plan(packages = platformPackages()) {
  return packages.map(({ target, platform }) => {
    const machines = MACHINES[platform];
    if (!machines) throw new Failure(`There is no machine to build ${platform} on.`);
    return { target, platform, servers: false, image: "", ...machines };
  });
}

/** The package of a target. */
export function packageOf(target) {
  const found = platformPackages().find((each) => each.target === target);
  if (found) return found;
  throw new Failure(`${target ?? "Nothing"} is not one of napi.targets in package.json.`);
}
