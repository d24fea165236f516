// What is published of the JavaScript: the sources of js/ as CommonJS, which every runtime, test
// runner and bundler can load, and for ES modules thin entries over the very same modules, so that
// a class is one class whichever way it is loaded.
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "./run.mjs";

export const dist = join(root, "dist");

/** The entry points: every file that lies in js/ itself. */
export function entries() {
  return readdirSync(join(root, "js"))
    .filter((file) => file.endsWith(".js"))
    .map((file) => file.slice(0, -".js".length));
}

export async function bundle() {
  const { rolldown } = await import("rolldown");
  const names = entries();
  const build = await rolldown({
    cwd: root,
    platform: "node",
    input: Object.fromEntries(names.map((name) => [name, `js/${name}.js`])),
  });
  rmSync(dist, { recursive: true, force: true });
  await build.write({
    dir: dist,
    format: "cjs",
    exports: "named",
    esModule: false,
    entryFileNames: "[name].js",
    chunkFileNames: "shared-[name].js",
  });
  await build.close();
  write("package.json", '{ "type": "commonjs" }\n');
  cpSync(join(root, "index.d.ts"), join(dist, "index.d.ts"));
  cpSync(join(root, "types"), join(dist, "types"), { recursive: true });
  const require = createRequire(join(dist, "index.js"));
  for (const name of names.filter((name) => name !== "cli")) {
    const exported = Object.keys(require(`./${name}.js`)).sort();
    const types = name === "index" ? "./index.js" : `./types/${name}.js`;
    write(
      `${name}.mjs`,
      `import core from "./${name}.js";\n\nexport const {\n  ${exported.join(",\n  ")},\n} = core;\n`,
    );
    write(`${name}.d.mts`, `export * from "${types}";\n`);
  }
}

function write(name, text) {
  writeFileSync(join(dist, name), text);
}
