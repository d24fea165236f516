// Finds the server programs, and installs missing ones.
import { existsSync, readdirSync } from "node:fs";
import { requirePackages } from "../lib/system-packages.mjs";
import { which } from "../lib/run.mjs";

/** libuv, for the Rust tests of the code that uses it. */
export const libuv = process.platform === "darwin" ? "libuv.1.dylib" : "libuv.so.1";

/** The library that replaces the user database of a process. macOS has no such library. */
export const nssWrapper = process.platform === "linux" ? "libnss_wrapper.so" : undefined;

/** The package of each program and library. */
const packages = {
  "redis-server": { debian: "redis-server", brew: "redis" },
  "redis-sentinel": { debian: "redis-sentinel", brew: "redis" },
  "redis-cli": { debian: "redis-tools", brew: "redis" },
  postgres: { debian: "postgresql", brew: "postgresql@17" },
  initdb: { debian: "postgresql", brew: "postgresql@17" },
  psql: { debian: "postgresql-client", brew: "postgresql@17" },
  pgbouncer: { debian: "pgbouncer", brew: "pgbouncer" },
  openssl: { debian: "openssl", brew: "openssl" },
  faketime: { debian: "faketime", brew: "libfaketime" },
  chromium: { debian: "chromium" }, // on macOS, Chrome does
  [libuv]: { debian: "libuv1", brew: "libuv" },
  ...(nssWrapper && { [nssWrapper]: { debian: "libnss-wrapper" } }),
};

/** Returns every package that the tests need, by its name in `"debian"` or `"brew"`. */
export function packageNames(system) {
  return [...new Set(Object.values(packages).flatMap((names) => names[system] ?? []))];
}

/** Returns the path of a program, and installs it first if possible. */
export function program(name) {
  if (!find(name)) requirePrograms([name]);
  return find(name);
}

/** Makes sure that the programs are installed. The failure says how to install them. */
export function requirePrograms(names) {
  requirePackages(names, {
    packages,
    find,
    user: "The tests",
    otherwise:
      "this system has no packages of them. `npm test -- --without-servers` runs the tests that need none",
  });
}

function find(name) {
  return which(name, ["/usr/sbin", "/sbin", ...postgresDirs(), ...libraryDirs()]);
}

function libraryDirs() {
  const debian = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  return [debian, "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"];
}

/** Debian and Homebrew keep the PostgreSQL servers outside PATH, one directory per version. */
function postgresDirs() {
  const found = [
    ["/usr/lib/postgresql", /^(\d+)$/],
    ["/opt/homebrew/opt", /^postgresql@(\d+)$/],
    ["/usr/local/opt", /^postgresql@(\d+)$/],
  ].flatMap(([base, pattern]) => {
    const names = existsSync(base) ? readdirSync(base) : [];
    const matches = names.map((name) => pattern.exec(name)).filter(Boolean);
    return matches.map(([name, version]) => ({ path: `${base}/${name}/bin`, version }));
  });
  return found.sort((a, b) => b.version - a.version).map(({ path }) => path);
}
