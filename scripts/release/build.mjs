// The addon of one platform, as it is released.
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { cargoFor } from "../platforms/rust.mjs";
import { home } from "../platforms/toolbox.mjs";
import { GLIBC, zig } from "../platforms/zig.mjs";
import { platformOf } from "./targets.mjs";

const LIBRARIES = {
  linux: "libsyncguard.so",
  darwin: "libsyncguard.dylib",
  win32: "syncguard.dll",
};

/** Builds it into its folder below npm/. */
export async function build(project, target) {
  const { os, libc, platform, folder, addon } = platformOf(project, target);
  const options = { target, command: ["build", "--release"], ...(await settings(os, libc)) };
  await cargoFor(platform, options);
  const built = join(home, platform, "cargo", target, "release", LIBRARIES[os]);
  copyFileSync(built, join(folder, addon));
}

async function settings(os, libc) {
  if (os === "linux") {
    const { zigbuild, env } = await zig();
    if (libc === "glibc") return { zigbuild, env, glibc: GLIBC };
    // A library that Node.js loads shares the libc of that.
    return { zigbuild, env: { ...env, RUSTFLAGS: "-C target-feature=-crt-static" } };
  }
  if (os === "darwin") return { env: { MACOSX_DEPLOYMENT_TARGET: "11.0" } };
  // No Visual C++ runtime has to be installed then.
  return { env: { RUSTFLAGS: "-C target-feature=+crt-static" } };
}
