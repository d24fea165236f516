/** Shows progress on stderr: one line that is redrawn on a terminal, occasional lines elsewhere. */
export function progress(label, total) {
  const { isTTY, columns = 80 } = process.stderr;
  let done = 0;
  let printed = -1;
  return {
    step(what) {
      const percent = Math.floor((done++ / total) * 100);
      const line = `${label} ${String(percent).padStart(3)} %  ${what}`;
      if (isTTY) {
        process.stderr.write(`\r\x1b[K${line.slice(0, columns - 1)}`);
      } else if (Math.floor(percent / 10) !== printed) {
        printed = Math.floor(percent / 10);
        process.stderr.write(`${line}\n`);
      }
    },
    end() {
      process.stderr.write(isTTY ? "\r\x1b[K" : `${label} 100 %\n`);
    },
  };
}
