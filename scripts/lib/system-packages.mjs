// Installs programs that the system's packages provide.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { Failure, which } from "./run.mjs";

/**
 * Makes sure that programs are installed. As root on Debian, missing ones are installed together.
 * Anywhere else, the failure says how to install them.
 * @param {string[]} names
 * @param {object} options
 * @param {Record<string, { debian: string, brew?: string }>} options.packages the package of each program
 * @param {(name: string) => string | undefined} [options.find] finds the path of a program
 * @param {string} options.user who needs them, in the plural
 * @param {string} [options.otherwise] what to do where there are no such packages
 */
export function requirePackages(names, { packages, find = which, user, otherwise = "" }) {
  const missing = names.filter((name) => !find(name));
  if (missing.length === 0) return;
  const wanted = (system) => [...new Set(missing.map((name) => packages[name][system]))].join(" ");
  if (process.getuid?.() !== 0 || !which("apt-get")) {
    const commands = {
      linux: `apt-get install ${wanted("debian")}`,
      darwin: `brew install ${wanted("brew")}`,
    };
    const command = commands[process.platform];
    const how = command ? `get what is missing with \`${command}\`` : otherwise;
    throw new Failure(`${user} need ${missing.join(", ")}: ${how}.`);
  }
  installOnDebian(wanted("debian").split(" "));
  const still = names.filter((name) => !find(name));
  if (still.length) throw new Failure(`apt-get could not install ${still.join(", ")}.`);
}

function installOnDebian(packages) {
  console.error(`Installing ${packages.join(", ")} …`);
  const install = () => aptGet(["install", "-y", "--no-install-recommends", ...packages]);
  withoutServices(() => {
    // Without a current package list, the first attempt fails.
    if (install()) return;
    aptGet(["update"]);
    install();
  });
}

function aptGet(args) {
  const { status } = spawnSync("apt-get", ["-q", ...args], {
    // Keep stdout for the test results.
    stdio: ["ignore", 2, 2],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  return status === 0;
}

/** Debian starts a server when its package is installed. This prevents it: we need only the program. */
function withoutServices(act) {
  const policy = "/usr/sbin/policy-rc.d";
  const ours = !existsSync(policy);
  if (ours) writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    act();
  } finally {
    if (ours) rmSync(policy, { force: true });
  }
}
