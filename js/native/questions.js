// Answers questions that the native side asks a backend or a client written in JavaScript.

import { remember } from "../base/thrown.js";

/** @import { LockErrorCode } from "../../index.js" */

/**
 * An object that answers questions. If `answer` throws, `describe` makes an error of the thrown value.
 * @typedef {object} Respondent
 * @property {(question: any) => unknown} answer
 * @property {(thrown: unknown, question: any) => { code: LockErrorCode, message: string, outcomeUnknown?: boolean }} describe
 * @property {boolean} [isSecret] whether what it throws may show a key or a lockId
 */

/** @type {Map<number, Respondent>} */
const respondents = new Map();
let lastTarget = 0;

/** @type {Respondent} */
const GONE = {
  answer: () => Promise.reject(undefined),
  describe: () => ({
    code: "Internal",
    message:
      "The backend or client was garbage collected while it was in use. Keep a reference to it",
  }),
};

/**
 * Registers an object that answers questions. Returns the number under which the native side asks it.
 * @param {Respondent} respondent
 * @returns {number}
 */
export function register(respondent) {
  lastTarget += 1;
  respondents.set(lastTarget, respondent);
  return lastTarget;
}

// A respondent is forgotten once the object that it belongs to is garbage collected.
const unused = new FinalizationRegistry((/** @type {number} */ target) => {
  respondents.delete(target);
});

/** @param {number} target */
export function unregister(target) {
  respondents.delete(target);
}

/**
 * Unregisters the target when its owner is garbage collected.
 * @param {object} owner
 * @param {number} target
 */
export function unregisterOnGc(owner, target) {
  unused.register(owner, target);
}

/**
 * @param {string} text `id,target,{json}`
 * @param {(id: number, ok: boolean, json: string) => void} reply
 */
export function ask(text, reply) {
  const comma = text.indexOf(",");
  const second = text.indexOf(",", comma + 1);
  const id = Number(text.slice(0, comma));
  const respondent = respondents.get(Number(text.slice(comma + 1, second))) ?? GONE;
  const question = JSON.parse(text.slice(second + 1));
  const { isSecret = false } = respondent;
  const fail = (/** @type {unknown} */ thrown) => {
    const { code, message, outcomeUnknown = false } = respondent.describe(thrown, question);
    const failure = { code, message, outcomeUnknown, thrown: remember(thrown, isSecret) };
    reply(id, false, JSON.stringify(failure));
  };
  const succeed = (/** @type {unknown} */ answer) => {
    let json;
    try {
      json = JSON.stringify(answer ?? null);
    } catch (thrown) {
      return fail(thrown);
    }
    reply(id, true, json);
  };
  try {
    Promise.resolve(respondent.answer(question)).then(succeed, fail);
  } catch (thrown) {
    fail(thrown);
  }
}
