// Output: tables for people, JSON lines for programs, and redrawing in place.

const REFRESH_MS = 1000;

/** @param {string} text */
export function print(text) {
  if (process.stdout.listenerCount("error") === 0) {
    // The reader may have closed the pipe.
    process.stdout.on("error", () => process.exit());
  }
  process.stdout.write(text);
}

/** @param {object} value */
export function printJson(value) {
  print(`${JSON.stringify(value)}\n`);
}

/**
 * @param {string[]} head
 * @param {string[][]} rows
 */
export function table(head, rows) {
  const all = [head, ...rows.map((row) => row.map(printable))];
  const widths = head.map((_, i) => Math.max(...all.map((row) => row[i].length)));
  const line = (/** @type {string[]} */ row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]))
      .join("  ")
      .trimEnd();
  return all.map((row) => `${line(row)}\n`).join("");
}

/**
 * Escapes control characters, because a key can contain terminal commands.
 * @param {string} text
 */
export function printable(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/**
 * Calls `look` once or repeatedly, and draws its result over the previous one.
 * @param {boolean} isWatching
 * @param {() => Promise<{ text: string, exitCode: number }>} look
 * @returns {Promise<number>} the exit code
 */
export async function draw(isWatching, look) {
  let above = "";
  for (;;) {
    const { text, exitCode } = await look();
    const shown = isWatching && process.stdout.isTTY ? fitting(text) : text;
    print(above + shown);
    if (!isWatching) return exitCode;
    if (process.stdout.isTTY) above = `\x1b[${shown.split("\n").length - 1}A\x1b[J`;
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
  }
}

/**
 * Cuts the text to the size of the terminal: lines that scroll away could not be redrawn.
 * @param {string} text
 */
function fitting(text) {
  const { rows = 24, columns = 80 } = process.stdout;
  const lines = text
    .split("\n")
    .slice(0, -1)
    .map((line) => (columns > 0 ? line.slice(0, columns) : line));
  const room = rows > 2 ? rows - 1 : lines.length;
  if (lines.length > room) {
    lines.splice(room - 1, Infinity, `… and ${lines.length - room + 1} more`);
  }
  return lines.map((line) => `${line}\n`).join("");
}
