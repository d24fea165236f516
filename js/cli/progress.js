// Shows the progress of a wait on a terminal.

import { showDuration } from "./duration.js";

/** @typedef {import("./backend.js").Opened} Opened */

const REDRAW_MS = 1000;
/** How many redraws share one lookup, because a lookup costs the store something. */
const REDRAWS_PER_LOOKUP = 5;
const CLEAR_LINE = "\r\x1b[K";

/**
 * Shows one line on the terminal, after the first second: who holds the lock, and since when. Of several
 * locks it only shows their number: some of them may be held by the caller already.
 * @param {Opened} opened
 * @param {string[]} keys
 * @returns {() => void} removes the line
 */
export function showWait({ backend, library }, keys) {
  const since = performance.now();
  const what = keys.length === 1 ? library.hashKey(keys[0]) : `${keys.length} locks`;
  let holder = "";
  let redrawn = 0;

  const look = async () => {
    if (keys.length > 1) return;
    const info = await backend.lookup({ key: keys[0] }).catch(() => null);
    const { holders = 1 } = info ?? {};
    // A label contains no control characters.
    const who = info?.holderLabel ?? info?.lockIdHash;
    if (info === null) holder = "";
    else if (holders > 1) holder = `, shared by ${holders} holders`;
    else holder = `, held by ${who} since ${clock(info.acquiredAtMs)}`;
  };
  const draw = () => {
    const waited = showDuration(performance.now() - since);
    const text = `syncguard: waiting for ${what} for ${waited}${holder}`;
    // A line that wraps could not be redrawn in place.
    process.stderr.write(CLEAR_LINE + text.slice(0, (process.stderr.columns || 120) - 1));
  };
  const timer = setInterval(async () => {
    redrawn += 1;
    if (redrawn % REDRAWS_PER_LOOKUP === 1) await look();
    if (!isOver) draw();
  }, REDRAW_MS);
  let isOver = false;
  return () => {
    isOver = true;
    clearInterval(timer);
    if (redrawn > 0) process.stderr.write(CLEAR_LINE);
  };
}

/** @param {number} atMs */
function clock(atMs) {
  const at = new Date(atMs);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toTimeString().slice(0, 8) : at.toISOString().slice(0, 16);
}
