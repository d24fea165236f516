// Handles messages of the native side that are not replies but requests to JavaScript.

import { LONGEST_TIMER_MS } from "../base/config.js";
import { forget } from "../base/thrown.js";
import { ask, unregister } from "./questions.js";

/**
 * The functions that pass answers to the native side.
 * @typedef {object} Answers
 * @property {(question: number, ok: boolean, json: string) => void} answer
 * @property {(timer: number) => void} fire
 */

/** The timers of backends that use JavaScript's time, by the ids of the native side.
 * @type {Map<number, ReturnType<typeof setTimeout>>} */
const timers = new Map();

/**
 * @param {string} message a letter that says what kind it is, and the rest
 * @param {Answers} answers
 */
export function onMessage(message, { answer, fire }) {
  const text = message.slice(1);
  switch (message.charAt(0)) {
    case "W":
      console.warn(`[SyncGuard] ${text}`);
      break;
    case "Q":
      ask(text, answer);
      break;
    case "T": {
      const [id, ms] = text.split(",").map(Number);
      setTimer(id, ms, fire);
      break;
    }
    case "C":
      clearTimeout(timers.get(Number(text)));
      timers.delete(Number(text));
      break;
    case "D":
      unregister(Number(text));
      break;
    case "F":
      forget(Number(text));
      break;
  }
}

/**
 * Uses the global timer functions, looked up on each call because a test may have replaced them.
 * @param {number} id
 * @param {number} ms
 * @param {Answers["fire"]} fire
 */
function setTimer(id, ms, fire) {
  const timer = setTimeout(
    () => {
      if (ms > LONGEST_TIMER_MS) return setTimer(id, ms - LONGEST_TIMER_MS, fire);
      timers.delete(id);
      fire(id);
    },
    Math.min(ms, LONGEST_TIMER_MS),
  );
  // The timer does not keep the process alive; a caller that waits does.
  timer.unref?.();
  timers.set(id, timer);
}
