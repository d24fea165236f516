// Where the server programs are, and how to get them when they are missing.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { Failure, which } from "../lib/run.mjs";

/** What Node.js is built on, for the Rust tests of what uses it. */
export const libuv = process.platform === "darwin" ? "libuv.1.dylib" : "libuv.so.1";

/** Program or library → Debian package. */
const packages = {
  "redis-server": "redis-server",
  "redis-sentinel": "redis-sentinel",
  "redis-cli": "redis-tools",
  postgres: "postgresql",
  initdb: "postgresql",
  psql: "postgresql-client",
  pgbouncer: "pgbouncer",
  openssl: "openssl",
  faketime: "faketime",
  [libuv]: "libuv1",
};

/** The path of a program; installs it first when that is possible. */
export function program(name) {
  if (!find(name)) requirePrograms([name]);
  return find(name);
}

/**
 * Makes sure that the programs are there. As root on Debian, missing ones are
 * installed in one go; anywhere else the failure says what to install.
 */
export function requirePrograms(names) {
  const missing = names.filter((name) => !find(name));
  if (missing.length === 0) return;
  const wanted = [...new Set(missing.map((name) => packages[name]))];
  const root = process.getuid?.() === 0;
  if (!root || !which("apt-get")) {
    throw new Failure(
      `The tests need ${missing.join(", ")}: install the package${wanted.length > 1 ? "s" : ""} ${wanted.join(", ")} (Debian names) and run this again.`,
    );
  }
  console.error(`Installing ${wanted.join(", ")} …`);
  withoutServices(() => {
    // Without a package list, or with one too old, the first try fails.
    if (install(wanted)) return;
    aptGet(["update"]);
    install(wanted);
  });
  const still = names.filter((name) => !find(name));
  if (still.length) throw new Failure(`apt-get could not install ${still.join(", ")}.`);
}

function find(name) {
  return which(name, ["/usr/sbin", "/sbin", ...postgresDirs(), ...libraryDirs()]);
}

function libraryDirs() {
  const debian = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  return [debian, "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"];
}

/** Debian keeps the PostgreSQL servers outside PATH, one directory per version. */
function postgresDirs() {
  const base = "/usr/lib/postgresql";
  if (!existsSync(base)) return [];
  const versions = readdirSync(base).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => `${base}/${version}/bin`);
}

const install = (names) => aptGet(["install", "-y", "--no-install-recommends", ...names]);

function aptGet(args) {
  const { status } = spawnSync("apt-get", ["-q", ...args], {
    // stdout belongs to the test results.
    stdio: ["ignore", 2, 2],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  return status === 0;
}

/** Debian starts a server when its package is installed: we only want the program. */
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
