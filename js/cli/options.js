// The commands and their options: one list for the parser, the help and the documents.

/**
 * @typedef {object} Option
 * @property {string} [short]
 * @property {string} [value] what stands for its value in the help; none: it has no value
 * @property {string} text
 */

/** @type {Record<string, Option>} */
const OF_ALL = {
  url: {
    value: "URL",
    text: "where the locks are (default: SYNCGUARD_URL, else a file that protects this host only)",
  },
  prefix: {
    value: "NAME",
    text: "of the keys (Redis), tables (PostgreSQL) or collections (Firestore)",
  },
  help: { short: "h", text: "show this text" },
};

/** @type {Record<string, Option>} */
const OF_LOOKING = {
  raw: { text: "show keys and lockIds, not their hashes" },
  json: { text: "one JSON object per line" },
  watch: { text: "look again every second" },
};

/** @type {Record<string, { usage: string, text: string, options: Record<string, Option> }>} */
export const COMMANDS = {
  run: {
    usage: "run KEY [options] -- COMMAND…",
    text: "run a command while the lock is held",
    options: {
      "no-wait": { short: "n", text: "do not wait when another holds the lock" },
      wait: {
        short: "w",
        value: "DURATION",
        text: "wait that long (default: as long as it takes)",
      },
      ttl: { value: "DURATION", text: "how long the lock outlives a crash (default: 30s)" },
      "at-least": {
        value: "DURATION",
        text: "keep the lock that long, even when the command is done",
      },
      "at-most": { value: "DURATION", text: "end the command after that long" },
      "kill-after": { value: "DURATION", text: "between SIGTERM and SIGKILL (default: 5s)" },
      "conflict-exit-code": {
        short: "E",
        value: "CODE",
        text: "when the lock was not had (default: 75; 0 for cron)",
      },
      label: {
        value: "TEXT",
        text: "what the holder is called, such as host:pid, for those who look or wait (default: none)",
      },
      quiet: { short: "q", text: "say nothing" },
      verbose: { short: "v", text: "say which store is used, whom it protects, and what happens" },
      ...OF_ALL,
    },
  },
  ls: { usage: "ls [options]", text: "list the live locks", options: { ...OF_LOOKING, ...OF_ALL } },
  show: {
    usage: "show KEY [options]",
    text: "show the lock on a key; exits with 1 when there is none",
    options: { ...OF_LOOKING, ...OF_ALL },
  },
  release: {
    usage: "release KEY --force [options]",
    text: "take a lock away from whoever holds it; exits with 1 when there is none",
    options: { force: { text: "needed: the holder is not asked" }, ...OF_ALL },
  },
  schema: {
    usage: "schema [options]",
    text: "print the SQL that a PostgreSQL database needs once; other stores need none",
    options: {
      apply: { text: "run it: it makes what is missing, and nothing else" },
      "holder-labels": { text: "with the column that labels of holders need" },
      ...OF_ALL,
    },
  },
  doctor: {
    usage: "doctor [options]",
    text: "connect, take a lock and tell what is good and what is not; exits with 1 when something is wrong",
    options: { json: OF_LOOKING.json, ...OF_ALL },
  },
};

/** Without a command. */
/** @type {Record<string, Option>} */
export const GLOBAL_OPTIONS = {
  help: OF_ALL.help,
  version: { text: "show the version" },
};
