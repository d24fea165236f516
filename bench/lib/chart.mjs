// Draws a bar chart per metric, one below the other, as one SVG without scripts or font files.
import { number } from "./table.mjs";

const WIDTH = 760;
const LABEL = 220;
const BAR = 20;
const GAP = 6;
const COLORS = ["#2f6feb", "#8b949e", "#bf8700", "#1a7f37", "#8250df", "#cf222e", "#57606a"];

export function chart({ title, metrics, rows }) {
  const parts = [];
  let y = 54;
  for (const [index, metric] of metrics.entries()) {
    if (metric.better === "none") continue;
    const bars = rows
      .map((row, i) => ({
        name: row.name,
        value: row.cells[index],
        color: COLORS[i % COLORS.length],
      }))
      .filter((bar) => bar.value);
    const longest = Math.max(...bars.map((bar) => bar.value.high), Number.MIN_VALUE);
    const scale = (value) => (value / longest) * (WIDTH - LABEL - 110);
    const hint = metric.better === "lower" ? "less is better" : "more is better";
    parts.push(text(10, y, `${metric.title} (${metric.unit}, ${hint})`, 'font-weight="600"'));
    y += 12;
    for (const { name, value, color } of bars) {
      const middle = y + BAR / 2;
      parts.push(
        text(LABEL - 8, middle + 4, name, 'text-anchor="end"'),
        `<rect x="${LABEL}" y="${y}" width="${scale(value.median).toFixed(1)}" height="${BAR}" rx="2" fill="${color}"/>`,
        // The quartiles.
        `<path d="M${x(scale(value.low))} ${middle}H${x(scale(value.high))}" stroke="#24292f" stroke-width="2"/>`,
        text(LABEL + scale(value.high) + 8, middle + 4, number(value.median)),
      );
      y += BAR + GAP;
    }
    y += 26;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    text(10, 22, title, 'font-size="16" font-weight="700"'),
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

const x = (offset) => (LABEL + offset).toFixed(1);

function text(left, top, content, attributes = "") {
  const escaped = content.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);
  return `<text x="${left}" y="${top}" ${attributes}>${escaped}</text>`;
}
