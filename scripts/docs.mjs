// npm run docs: shows the documentation site while you write.
//   npm run docs                   at http://localhost:5173
//   npm run docs -- --build        builds it to target/docs/site
import { join } from "node:path";
import { main, root, tool } from "./lib/run.mjs";
import { setUp } from "./lib/setup.mjs";

await main(async () => {
  await setUp({ addon: false, bundle: false });
  // Imported here, because it needs packages that only now are certainly installed.
  const { generate } = await import("./docs/generate.mjs");
  generate();
  const args = process.argv.slice(2);
  const isBuild = args[0] === "--build";
  const command = isBuild ? ["build", "docs", ...args.slice(1)] : ["dev", "docs", ...args];
  await tool("vitepress/bin/vitepress.js", command);
  if (isBuild) console.log(`The site is in ${join(root, "target/docs/site")}.`);
});
