// Builds the addon of one platform for a release.
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { cargoFor } from "../platforms/rust.mjs";
import { home } from "../platforms/toolbox.mjs";
import { GLIBC, zig } from "../platforms/zig.mjs";
import { packageOf } from "./targets.mjs";

const LIBRARIES = {
  linux: "libsyncguard.so",
  darwin: "libsyncguard.dylib",
  win32: "syncguard.dll",
};

/** Builds the addon into the folder. */
export async function build(target, folder) {
  const { platform, manifest } = packageOf(target);
  const os = manifest.os[0];
  await cargoFor(platform, {
    target,
    command: ["build", "--release"],
    ...(await settings(os, manifest.libc)),
  });
  const built = join(home, platform, "cargo", target, "release", LIBRARIES[os]);
  mkdirSync(folder, { recursive: true });
  copyFileSync(built, join(folder, manifest.main));
}

async function settings(os, libc) {
  if (os === "linux") {
    const { zigbuild, env } = await zig();
    if (libc[0] === "glibc") return { zigbuild, env, glibc: GLIBC };
    // Node.js loads the addon, so both must share one libc.
    return { zigbuild, env: { ...env, RUSTFLAGS: "-C target-feature=-crt-static" } };
  }
  if (os === "darwin") return { env: { MACOSX_DEPLOYMENT_TARGET: "11.0" } };
  // Link the Visual C++ runtime statically, so that users need not install it.
  return { env: { RUSTFLAGS: "-C target-feature=+crt-static" } };
}
