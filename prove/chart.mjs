// Draws the curves of several runs, one panel for each, as one SVG without scripts or font files.

const PANEL = { width: 370, height: 230 };
const PLOT = { left: 56, top: 34, width: 290, height: 140 };
const COLUMNS = 2;

/**
 * @param {{ title: string, panels: { title: string, curves: { name: string, color: string,
 *   points: [number, number][] }[] }[], axes: { x: string, y: string } }} what
 */
export function curves({ title, panels, axes }) {
  const rows = Math.ceil(panels.length / COLUMNS);
  const [width, height] = [COLUMNS * PANEL.width, 80 + rows * PANEL.height];
  const names = panels[0]?.curves ?? [];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#24292f">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    text(10, 22, title, 'font-size="15" font-weight="700"'),
    ...names.flatMap(({ name, color }, index) => [
      `<rect x="${10 + (index % 2) * 240}" y="${36 + (index >> 1) * 18}" width="14" height="4" fill="${color}"/>`,
      text(30 + (index % 2) * 240, 42 + (index >> 1) * 18, name),
    ]),
    ...panels.map((panel, index) => {
      const [x, y] = [index % COLUMNS, Math.floor(index / COLUMNS)];
      const place = `translate(${x * PANEL.width} ${76 + y * PANEL.height})`;
      return `<g transform="${place}">\n${plot(panel, axes)}\n</g>`;
    }),
    "</svg>",
    "",
  ].join("\n");
}

function plot({ title, curves }, axes) {
  const points = curves.flatMap((curve) => curve.points);
  const right = Math.max(...points.map(([x]) => x), 1);
  const top = roundUp(Math.max(...points.map(([, y]) => y), 1));
  const toX = (x) => (PLOT.left + (x / right) * PLOT.width).toFixed(1);
  const toY = (y) => (PLOT.top + PLOT.height - (y / top) * PLOT.height).toFixed(1);
  const grid = [0, 0.5, 1].flatMap((part) => [
    `<path d="M${PLOT.left} ${toY(top * part)}h${PLOT.width}" stroke="#d0d7de"/>`,
    text(PLOT.left - 6, Number(toY(top * part)) + 4, String(top * part), 'text-anchor="end"'),
  ]);
  const bottom = PLOT.top + PLOT.height;
  const ticks = Array.from({ length: Math.floor(right) + 1 }, (_, x) =>
    text(toX(x), bottom + 16, String(x), 'text-anchor="middle"'),
  );
  const lines = curves.map(({ color, points }) => {
    const path = points.map(([x, y], index) => `${index ? "L" : "M"}${toX(x)} ${toY(y)}`).join("");
    const dots = points.map(
      ([x, y]) => `<circle cx="${toX(x)}" cy="${toY(y)}" r="2.5" fill="${color}"/>`,
    );
    return `<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>${dots.join("")}`;
  });
  return [
    text(10, 14, title, 'font-weight="600"'),
    text(PLOT.left, 28, axes.y, 'font-size="11"'),
    ...grid,
    ...ticks,
    text(PLOT.left + PLOT.width / 2, bottom + 32, axes.x, 'text-anchor="middle" font-size="11"'),
    ...lines,
  ].join("\n");
}

/** Rounds up to one or two digits that are easy to halve. */
function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].find((step) => step * unit >= value) * unit;
}

function text(x, y, content, attributes = "") {
  const escaped = content.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);
  return `<text x="${x}" y="${y}" ${attributes}>${escaped}</text>`;
}
