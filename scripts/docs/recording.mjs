// Records the demo in a terminal, as a picture that plays: `node scripts/docs/recording.mjs` writes
// docs/pictures/demo.svg. It shows what the demo printed, at the speed at which it was printed.
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { main, root } from "../lib/run.mjs";
import { setUp } from "../lib/setup.mjs";

const COLUMNS = 72;
const CHAR = 8.4;
const LINE = 20;
const PADDING = 16;
const TITLE_BAR = 30;
/** How long the last picture stays before the recording begins again, in milliseconds. */
const PAUSE = 8_000;
/** Pictures per second. */
const RATE = 15;

const COLORS = {
  paper: "#0d1117",
  bar: "#21262d",
  ink: "#e6edf3",
  muted: "#8b949e",
  rest: "#30363d",
  good: "#3fb950",
  bad: "#f85149",
  accent: "#4493f8",
};

/** Runs a command in a terminal, and returns what it printed, with times in milliseconds. */
async function record(command) {
  const terminal = spawn(
    "script",
    ["--quiet", "--flush", "--return", "--command", command, "/dev/null"],
    {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, TERM: "dumb", COLUMNS: String(COLUMNS) },
    },
  );
  const begin = performance.now();
  const chunks = [];
  terminal.stdout.setEncoding("utf8");
  terminal.stdout.on("data", (text) => chunks.push({ at: performance.now() - begin, text }));
  const code = await new Promise((resolve, reject) => {
    terminal.once("error", reject);
    terminal.once("close", resolve);
  });
  if (code !== 0) throw new Error(`${command} ended with ${code}.`);
  return chunks;
}

/** Returns the states of each line of the screen: what it said, and from when on. */
export function linesOf(chunks) {
  const lines = [[]];
  let row = 0;
  let column = 0;
  let text = "";
  const note = (at) => {
    const states = lines[row];
    const frame = Math.round((at * RATE) / 1000) / RATE;
    if (states.at(-1)?.at === frame) states.pop();
    if (states.at(-1)?.text !== text) states.push({ at: frame, text });
  };
  for (const chunk of chunks) {
    for (const char of chunk.text) {
      if (char === "\r") column = 0;
      else if (char === "\n") {
        note(chunk.at);
        lines[++row] = [];
        [text, column] = ["", 0];
      } else {
        text = text.slice(0, column) + char + text.slice(column + 1);
        column++;
      }
    }
    note(chunk.at);
  }
  return lines.map((states) => states.filter(({ text }) => text.trim()));
}

/** Draws the lines. Without animation, and for people who want none, it shows the end. */
export function play(title, lines) {
  const begin = Math.min(...lines.flat().map(({ at }) => at));
  const end = Math.max(...lines.flat().map(({ at }) => at)) - begin;
  const seconds = end + PAUSE / 1000;
  const percent = (at) => `${(((at - begin) / seconds) * 100).toFixed(2)}%`;
  const rules = [];
  const parts = lines.flatMap((states, row) =>
    states.map(({ at, text }, index) => {
      const next = states[index + 1]?.at;
      const name = `s${rules.length}`;
      const after = next === undefined ? "" : `${percent(next)}{visibility:hidden}`;
      rules.push(
        `@keyframes ${name}{0%{visibility:hidden}${percent(at)}{visibility:visible}${after}}.${name}{animation-name:${name}}`,
      );
      const rest = next === undefined ? "" : ' visibility="hidden"';
      return `<g class="${name}"${rest}>${drawLine(text, row)}</g>`;
    }),
  );
  const width = Math.ceil(COLUMNS * CHAR + 2 * PADDING);
  const height = TITLE_BAR + lines.length * LINE + PADDING;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`,
    `<style>@media(prefers-reduced-motion:no-preference){g{animation:${seconds.toFixed(2)}s step-end infinite}${rules.join("")}}</style>`,
    `<title>${title}</title>`,
    `<rect width="${width}" height="${height}" rx="8" fill="${COLORS.paper}"/>`,
    `<path d="M0 ${TITLE_BAR}V8a8 8 0 0 1 8-8H${width - 8}a8 8 0 0 1 8 8V${TITLE_BAR}z" fill="${COLORS.bar}"/>`,
    segment("$ npm start", PADDING, 20, COLORS.muted),
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

/** Draws a line of text. Bars of block characters become rectangles, as fonts disagree about them. */
function drawLine(text, row) {
  const y = TITLE_BAR + PADDING / 2 + row * LINE + 14;
  const color = /: 0 updates were lost/.test(text)
    ? COLORS.good
    : /updates were lost/.test(text)
      ? COLORS.bad
      : /^ {2}(?:import|await) /.test(text)
        ? COLORS.accent
        : COLORS.ink;
  return [...text.matchAll(/█+|░+|[^█░]+/g)]
    .map(({ 0: part, index }) => {
      const x = PADDING + index * CHAR;
      const width = (part.length * CHAR).toFixed(1);
      const box = (fill) =>
        `<rect x="${x.toFixed(1)}" y="${y - 11}" width="${width}" height="13" fill="${fill}"/>`;
      if (part[0] === "█") return box(COLORS.accent);
      if (part[0] === "░") return box(COLORS.rest);
      return segment(part, x, y, color);
    })
    .join("");
}

/** Draws text whose characters all have the same width, whichever font the reader has. */
function segment(text, x, y, color) {
  const start = text.length - text.trimStart().length;
  const shown = text.trim();
  if (!shown) return "";
  const escaped = shown.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);
  return `<text x="${(x + start * CHAR).toFixed(1)}" y="${y}" fill="${color}" textLength="${(shown.length * CHAR).toFixed(1)}" xml:space="preserve">${escaped}</text>`;
}

if (process.argv[1] === import.meta.filename) {
  await main(async () => {
    await setUp({ release: false });
    const chunks = await record(`${process.execPath} demo/index.mjs`);
    const folder = join(root, "docs", "pictures");
    mkdirSync(folder, { recursive: true });
    const title = "Several processes add 1 to the same counter, without and with a lock";
    writeFileSync(join(folder, "demo.svg"), play(title, linesOf(chunks)));
  });
}
