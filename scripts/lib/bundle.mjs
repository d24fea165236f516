// What is published of the JavaScript: the sources of js/ as CommonJS, which every runtime, test
// runner and bundler can load, and for ES modules thin entries over the very same modules, so that
// a class is one class whichever way it is loaded.
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { platformPackages } from "./packages.mjs";
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
    plugins: [packagesByCondition],
    transform: {
      // Bundlers put us into ES modules too, where there is none.
      define: { "import.meta.dirname": "(typeof __dirname === 'string' ? __dirname : undefined)" },
    },
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
  write("package.json", `${JSON.stringify(distScope("."), null, 2)}\n`);
  write("packages.js", packageList());
  cpSync(join(root, "js", "native", "packages.js"), join(dist, "packages-hidden.mjs"));
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

/**
 * What a package.json must say of dist, which lies in that folder. Only bundlers have the condition
 * "module"; Bun's, which can pack an addon, is asked first. All others find the packages of the
 * platforms by their full names.
 */
export function distScope(folder) {
  const [listed, hidden] = [`${folder}/packages.js`, `${folder}/packages-hidden.mjs`];
  const imports = { "#packages": { bun: listed, module: hidden, default: listed } };
  return { type: "commonjs", imports };
}

const packagesByCondition = {
  name: "packages-by-condition",
  resolveId(id) {
    return id === "./packages.js" ? { id: "#packages", external: true } : null;
  },
};

/**
 * Names in full, in the plainest form: so tools that gather what a program needs (ncc, file tracing,
 * `bun build --compile`) see them, and the `try` tells them that not all are there.
 */
function packageList() {
  const cases = platformPackages().map(
    ({ platform, name }) => `      case "${platform}":\n        return require("${name}");\n`,
  );
  return `exports.requirePackage = (platform) => {
  try {
    switch (platform) {
${cases.join("")}    }
  } catch (cause) {
    throw cause;
  }
};
`;
}

function write(name, text) {
  writeFileSync(join(dist, name), text);
}
