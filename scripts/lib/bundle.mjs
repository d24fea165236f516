// Builds the JavaScript that is published: the sources of js/ as CommonJS, which every runtime, test
// runner and bundler can load, and thin ES modules that re-export the same modules, so that there is
// only one copy of each class.
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { platformPackages } from "./packages.mjs";
import { root } from "./run.mjs";

export const dist = join(root, "dist");

/** The entry points: every file directly in js/. */
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
    // Keep these external: a second copy would not be the one that the program uses.
    external: ["@opentelemetry/api", "@nestjs/common", "@nestjs/terminus"],
    input: Object.fromEntries(names.map((name) => [name, `js/${name}.js`])),
    plugins: [packagesByCondition],
    transform: {
      // Bundlers may put this code into ES modules, which do not have it.
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
  write("packages.js", packageList({ built: true }));
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
 * The `imports` that dist/ needs in its package.json. Only bundlers use the condition "module". Bun's
 * bundler can include an addon, so its condition comes first. All others find the platform packages by
 * their full names.
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
 * Requires the packages by literal names, so that tools that collect dependencies (ncc, file tracing,
 * `bun build --compile`) find them. The `try` tells these tools that some may be missing. In a checkout
 * (`built`) the addon is where the build has put it.
 */
export function packageList({ built = false } = {}) {
  const cases = platformPackages().map(
    ({ platform, name }) => `      case "${platform}":\n        return require("${name}");\n`,
  );
  return `${built ? BUILT : ""}exports.requirePackage = (platform) => {
  try {
${built ? "    const file = builtFile(platform);\n    if (file) return require(file);\n" : ""}    switch (platform) {
${cases.join("")}    }
  } catch (cause) {
    throw cause;
  }
};
`;
}

const BUILT = `const { existsSync } = require("node:fs");
const { join } = require("node:path");

function builtFile(platform) {
  const file = join(__dirname, "../js/native", \`syncguard.\${platform}.node\`);
  return existsSync(file) ? file : undefined;
}

`;

function write(name, text) {
  writeFileSync(join(dist, name), text);
}
