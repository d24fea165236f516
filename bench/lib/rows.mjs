/** Formats a Markdown table, with contestants as rows. Returns its lines. */
export function rowsTable(header, rows) {
  const widths = header.map((_, column) =>
    Math.max(...[header, ...rows].map((row) => row[column].length)),
  );
  const print = (row) => `| ${row.map((text, at) => text.padEnd(widths[at])).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [print(header), rule, ...rows.map(print)];
}
