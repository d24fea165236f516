// macOS x64.
import { checkMacos } from "./macos.mjs";

export async function build() {
  await checkMacos("macos-x64", "x86_64-apple-darwin", "x86_64");
}
