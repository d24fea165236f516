/** Creates a progress bar on one line of the terminal, or prints one line of text without a terminal. */
export function progressBar(label, total) {
  const width = 30;
  const draw = (done, end = "") => {
    const filled = Math.round((done / total) * width);
    const bar = "█".repeat(filled) + "░".repeat(width - filled);
    process.stdout.write(
      `${label} ${bar} ${String(done).padStart(String(total).length)}/${total}${end}`,
    );
  };
  const terminal = process.stdout.isTTY;
  if (terminal) draw(0);
  return {
    update(done) {
      if (!terminal) return;
      process.stdout.write("\r");
      draw(done);
    },
    end(done) {
      if (terminal) process.stdout.write("\r");
      draw(done, "\n");
    },
  };
}
