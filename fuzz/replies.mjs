// For fuzz_targets/javascript_replies.rs: reads `[kind, reply]`, one in a line, and says what the
// library made of each.
import { replyError } from "../js/base/errors.js";
import { FAILURE_REASON } from "../js/base/constants.js";
import { readExtended, readGrant, readInfo } from "../js/native/replies.js";

console.warn = () => {};

const readers = {
  grant: (reply) => readGrant(reply, "key"),
  extended(reply) {
    let validUntil;
    const read = readExtended(reply, {}, (moment) => (validUntil = moment));
    return { ...read, reason: read[FAILURE_REASON]?.reason, validUntil };
  },
  info: readInfo,
  json: (reply) => JSON.parse(reply.slice(1)),
  error: (reply) => readError(replyError(reply)),
};

function readError({ code, message, cause, context }) {
  const { cause: _, ...details } = context ?? {};
  return { code, message, cause: cause && readError(cause), ...details };
}

// Not by `readline`: to it a line ends also at U+2028.
let input = "";
process.stdin.setEncoding("utf8").on("data", (text) => {
  const lines = (input + text).split("\n");
  input = lines.pop();
  for (const line of lines) {
    const [kind, reply] = JSON.parse(line);
    process.stdout.write(`${JSON.stringify(readers[kind](reply))}\n`);
  }
});
