module.exports = {
  target: "node",
  mode: "production",
  entry: "./main.mjs",
  output: { path: `${__dirname}/out/webpack` },
};
