// Draws timelines and boxes as SVGs. Their colours are variables: in a file they follow the reader's
// system, and on the site its colour scheme.

const LIGHT = {
  ink: "#1f2328",
  muted: "#59636e",
  line: "#d1d9e0",
  fill: "#f6f8fa",
  paper: "#ffffff",
  a: "#0969da",
  "a-fill": "#ddf4ff",
  b: "#9a6700",
  "b-fill": "#fff8c5",
  good: "#1a7f37",
  "good-fill": "#dafbe1",
  bad: "#cf222e",
  "bad-fill": "#ffebe9",
};
const DARK = {
  ink: "#e6edf3",
  muted: "#9198a1",
  line: "#3d444d",
  fill: "#212830",
  paper: "#0d1117",
  a: "#4493f8",
  "a-fill": "#121d2f",
  b: "#d29922",
  "b-fill": "#272215",
  good: "#3fb950",
  "good-fill": "#12261e",
  bad: "#f85149",
  "bad-fill": "#25171c",
};

const variables = (colors) =>
  Object.entries(colors)
    .map(([name, value]) => `--${name}:${value}`)
    .join(";");

/** The style of a picture that is shown as a file of its own. */
export const STYLE = `<style>svg{${variables(LIGHT)}}@media(prefers-color-scheme:dark){svg{${variables(DARK)}}}</style>`;

const WIDTH = 640;
const LANE = 62;
const BAR = 28;
const TOP = 12;

const escape = (text) => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

export function text(
  x,
  y,
  content,
  { color = "ink", size = 13, anchor = "start", weight, halo = false } = {},
) {
  const style = [
    `x="${round(x)}" y="${round(y)}" fill="var(--${color})" font-size="${size}"`,
    anchor !== "start" && `text-anchor="${anchor}"`,
    weight && `font-weight="${weight}"`,
    halo && 'stroke="var(--paper)" stroke-width="4" paint-order="stroke"',
  ];
  return `<text ${style.filter(Boolean).join(" ")}>${escape(content)}</text>`;
}

export function box(
  x,
  y,
  width,
  height,
  { kind = "line", fill = `${kind}-fill`, dashed = false } = {},
) {
  const color = kind === "line" ? "fill" : fill;
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="5" fill="var(--${color})" stroke="var(--${kind})"${dashed ? ' stroke-dasharray="4 3"' : ""}/>`;
}

export function arrow(x1, y1, x2, y2, color = "muted") {
  return `<path d="M${round(x1)} ${round(y1)}L${round(x2)} ${round(y2)}" stroke="var(--${color})" stroke-width="1.5" fill="none" marker-end="url(#head-${color})"/>`;
}

const head = (color) =>
  `<marker id="head-${color}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="var(--${color})"/></marker>`;

const round = (value) => Math.round(value * 10) / 10;

/** Puts parts into an SVG. */
export function picture(title, width, height, parts) {
  const body = parts.flat().join("\n");
  const colors = [...new Set([...body.matchAll(/url\(#head-([\w-]+)\)/g)].map(([, name]) => name))];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">`,
    STYLE,
    `<title>${escape(title)}</title>`,
    ...(colors.length ? [`<defs>${colors.map(head).join("")}</defs>`] : []),
    body,
    "</svg>",
    "",
  ].join("\n");
}

/**
 * Draws what several actors do over time, one lane each.
 * @param {object} what
 * @param {string} what.title
 * @param {number} what.end the time at the right edge; the left edge is 0
 * @param {{ name: string, bars?: { from: number, to: number, label: string, kind?: string,
 *   dashed?: boolean }[], marks?: { at: number, label: string, kind?: string, anchor?: string }[] }[]}
 *   what.lanes
 * @param {{ from: [lane: number, at: number], to: [lane: number, at: number], kind?: string }[]}
 *   [what.arrows]
 * @param {{ at: number, label: string }[]} [what.moments] vertical lines through all lanes
 */
export function timeline({ title, end, lanes, arrows = [], moments = [] }) {
  const toX = (time) => 8 + (time / end) * (WIDTH - 16);
  const top = TOP + (moments.length ? 18 : 0);
  const middle = (lane) => top + lane * LANE + 20 + BAR / 2;
  const height = top + lanes.length * LANE + 30;
  const parts = [
    moments.map(({ at, label }) => [
      `<path d="M${round(toX(at))} ${TOP + 12}V${height - 26}" stroke="var(--muted)" stroke-dasharray="3 3"/>`,
      text(toX(at), TOP + 4, label, { color: "muted", size: 12, anchor: "middle" }),
    ]),
    lanes.map(({ name, bars = [], marks = [] }, lane) => [
      text(8, middle(lane) - BAR / 2 - 5, name, {
        size: 12,
        weight: 600,
        color: "muted",
        halo: true,
      }),
      `<path d="M8 ${middle(lane)}H${WIDTH - 8}" stroke="var(--line)"/>`,
      bars.map(({ from, to, label, kind, dashed }) => [
        box(toX(from), middle(lane) - BAR / 2, toX(to) - toX(from), BAR, { kind, dashed }),
        text((toX(from) + toX(to)) / 2, middle(lane) + 4.5, label, {
          anchor: "middle",
          size: 12.5,
        }),
      ]),
      marks.map(({ at, label, kind = "ink", anchor = "middle" }) => [
        `<circle cx="${round(toX(at))}" cy="${middle(lane)}" r="5" fill="var(--${kind})"/>`,
        text(toX(at), middle(lane) + 20, label, { color: kind, size: 12, anchor }),
      ]),
    ]),
    arrows.map(({ from, to, kind }) => {
      const down = to[0] > from[0] ? 1 : -1;
      const start = middle(from[0]) + down * (BAR / 2);
      const stop = middle(to[0]) - down * 8;
      return arrow(toX(from[1]), start, toX(to[1]), stop, kind);
    }),
    `<path d="M8 ${height - 18}H${WIDTH - 14}" stroke="var(--muted)" marker-end="url(#head-muted)"/>`,
    text(WIDTH - 8, height - 4, "time", { color: "muted", size: 11, anchor: "end" }),
  ];
  return picture(title, WIDTH, height, parts.flat(3));
}
