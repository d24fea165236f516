// macOS arm64.
import { checkMacos } from "./macos.mjs";

export async function build() {
  await checkMacos("macos-arm64", "aarch64-apple-darwin", "aarch64");
}
