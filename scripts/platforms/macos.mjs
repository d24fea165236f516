// macOS is only type-checked here, because linking needs Apple's frameworks.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cargoFor } from "./rust.mjs";
import { home, python } from "./toolbox.mjs";

/**
 * @param {string} name of the platform
 * @param {string} target Rust's name of the target
 * @param {string} machine zig's name of the target
 */
export async function checkMacos(name, target, machine) {
  const python3 = join(await python("ziglang"), "python3");
  const folder = join(home, name);
  const sdk = join(folder, "no-sdk");
  mkdirSync(sdk, { recursive: true });
  const compiler = join(folder, "cc");
  // Drop the arguments that build scripts add for Apple's compiler: zig does not know them.
  const script = `#!/bin/sh
for argument do
  shift
  case $skip$argument in
    --target=*|-mmacosx-version-min=*) ;;
    -arch) skip=next- ;;
    next-*) skip= ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "${python3}" -m ziglang cc -target ${machine}-macos "$@"
`;
  writeFileSync(compiler, script);
  chmodSync(compiler, 0o755);
  const variable = `CC_${target.replaceAll("-", "_")}`;
  const env = { [variable]: compiler, SDKROOT: sdk, RUSTFLAGS: "-D warnings" };
  await cargoFor(name, { target, command: ["check", "--tests"], env });
}
