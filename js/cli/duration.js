// Parses and formats durations.

import { wrongUsage } from "./exit.js";

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** What a timer of Node's can wait for. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * @param {string} text such as `500ms`, `30s`, `1.5m` or `1h`
 * @param {string} option for the message
 * @returns {number} milliseconds
 */
export function readDuration(text, option) {
  const parts = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text);
  if (parts === null) {
    throw wrongUsage(`${option} needs a duration such as 500ms, 30s, 5m or 1h.`);
  }
  const ms = Math.round(Number(parts[1]) * UNITS[/** @type {keyof typeof UNITS} */ (parts[2])]);
  if (ms > LONGEST_MS) throw wrongUsage(`${option} must not be longer than 24 days.`);
  return ms;
}

/**
 * Formats a duration for people, with its two largest units.
 * @param {number} ms
 */
export function showDuration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${minutes % 60}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d${hours % 24}h`;
}
