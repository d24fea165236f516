import { defineConfig } from "vite";

// Packs all dependencies, where a server build leaves them outside otherwise.
export default defineConfig({
  ssr: { noExternal: true },
  build: { ssr: "main.ts", outDir: "out/packed" },
});
