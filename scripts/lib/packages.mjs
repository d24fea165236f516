// Generates the platform packages and the loader's list of them from package.json, which is the only
// place that defines their names.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./run.mjs";

/** Maps Rust's names of platforms to npm's. */
const TARGETS = {
  "x86_64-unknown-linux-gnu": { os: "linux", cpu: "x64", libc: "glibc", abi: "gnu" },
  "aarch64-unknown-linux-gnu": { os: "linux", cpu: "arm64", libc: "glibc", abi: "gnu" },
  "x86_64-unknown-linux-musl": { os: "linux", cpu: "x64", libc: "musl", abi: "musl" },
  "aarch64-unknown-linux-musl": { os: "linux", cpu: "arm64", libc: "musl", abi: "musl" },
  "x86_64-apple-darwin": { os: "darwin", cpu: "x64" },
  "aarch64-apple-darwin": { os: "darwin", cpu: "arm64" },
  "x86_64-pc-windows-msvc": { os: "win32", cpu: "x64", abi: "msvc" },
  "aarch64-pc-windows-msvc": { os: "win32", cpu: "arm64", abi: "msvc" },
};

export function manifest() {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
}

/** Returns `[{ target, platform, name, manifest }]`, one for each platform. */
export function platformPackages(main = manifest()) {
  const { version, description, keywords, license, author, engines, repository, homepage } = main;
  return main.napi.targets.map((target) => {
    const { os, cpu, libc, abi } = TARGETS[target];
    const platform = [os, cpu, abi].filter(Boolean).join("-");
    const file = `${main.napi.binaryName}.${platform}.node`;
    const name = `${main.napi.packageName}-${platform}`;
    return {
      target,
      platform,
      name,
      manifest: {
        name,
        version,
        description: `The native part of ${main.name} for ${platform}. ${description}`,
        keywords,
        license,
        author,
        repository,
        homepage,
        type: "commonjs",
        main: file,
        files: [file],
        os: [os],
        cpu: [cpu],
        libc: libc && [libc],
        engines,
        // Yarn must unpack the package, because the system cannot load a library from an archive.
        preferUnplugged: true,
        publishConfig: { access: "public" },
      },
    };
  });
}

/** Returns the text of each file that is generated from package.json, by its path below the root. */
export function derivedFiles(main = manifest()) {
  const packages = platformPackages(main);
  const files = { "js/native/platforms.js": loaderList(main, packages) };
  for (const { platform, name, manifest } of packages) {
    files[`npm/${platform}/package.json`] = `${JSON.stringify(manifest, null, 2)}\n`;
    files[`npm/${platform}/README.md`] =
      `# ${name}\n\nThe native part of \`${main.name}\` for ${platform}. npm installs it by itself where it fits.\n`;
  }
  return files;
}

function loaderList({ name, napi, version }, packages) {
  const lines = packages.map(({ platform }) => `  "${platform}",`);
  return `// Made by \`npm run packages\` from package.json.

export const NAME = "${name}";
export const VERSION = "${version}";
export const PREFIX = "${napi.packageName}-";

export const PLATFORMS = [
${lines.join("\n")}
];
`;
}
