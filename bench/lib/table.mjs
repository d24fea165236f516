import { cpus } from "node:os";

/** Formats the results as one Markdown table, with contestants as columns. */
export function table({ title, metrics, rows, rounds, ms }) {
  const reference = rows.find((row) => row.reference);
  const header = ["", ...rows.map((row) => row.name)];
  const lines = metrics.map((metric, index) => [
    `${metric.title} (${metric.unit})`,
    ...rows.map((row) => cell(row.cells[index], metric, row, reference?.cells[index])),
  ]);
  const widths = header.map((text, column) =>
    Math.max(text.length, ...lines.map((line) => line[column].length)),
  );
  const print = (line) =>
    `| ${line.map((text, column) => text.padEnd(widths[column])).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [
    `# ${title}`,
    "",
    `Median of ${rounds} alternating rounds of ${ms} ms, quartiles in brackets${
      reference ? `; × is how many times better than ${reference.name}` : ""
    }.`,
    `Node.js ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? "CPU"}.`,
    "",
    print(header),
    rule,
    ...lines.map(print),
    "",
  ].join("\n");
}

function cell(value, { better }, row, base) {
  if (!value) return "–";
  const text = `${number(value.median)} [${number(value.low)}–${number(value.high)}]`;
  if (!base || row.reference || better === "none") return text;
  return `${text} ×${number(ratio(value.median, base.median, better))}`;
}

/** Returns how many times better than the reference a value is. Above 1 is always better. */
export function ratio(value, base, better) {
  return better === "lower" ? base / value : value / base;
}

/** Formats a number with three significant digits and no exponent. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}
