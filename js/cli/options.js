// The commands and their options. The parser, the help and a test of the documents use this list.

/**
 * @typedef {object} Option
 * @property {string} [short]
 * @property {string} [value] the placeholder for its value in the help. Absent if it has no value
 * @property {boolean} [isRepeated] whether it may be given several times, with a value each
 * @property {string} text
 */

/** @type {Record<string, Option>} */
const OF_ALL = {
  url: {
    value: "URL",
    text: "where the locks are (default: SYNCGUARD_URL, or else a file that protects this host only)",
  },
  prefix: {
    value: "NAME",
    text: "a namespace of its own: a prefix of keys (Redis), tables (PostgreSQL) or collections (Firestore)",
  },
  help: { short: "h", text: "show this text" },
};

/** @type {Record<string, Option>} */
const OF_LOOKING = {
  raw: { text: "show keys and lockIds, not their hashes" },
  json: { text: "print one JSON object per line" },
  watch: { text: "look again every second" },
};

/** @type {Record<string, { usage: string, text: string, options: Record<string, Option> }>} */
export const COMMANDS = {
  run: {
    usage: "run KEY [options] -- COMMAND…",
    text: "run a command while the lock is held",
    options: {
      key: {
        value: "KEY",
        isRepeated: true,
        text: "one of several keys to lock, all or none: repeat this, in place of KEY",
      },
      concurrency: { value: "N", text: "allow N holders at a time, 1 to 1000 (default: 1)" },
      shared: { text: "share the lock with any number of holders, as readers do" },
      "no-wait": { short: "n", text: "do not wait if the lock is busy" },
      wait: {
        short: "w",
        value: "DURATION",
        text: "wait at most this long (default: as long as it takes)",
      },
      ttl: {
        value: "DURATION",
        text: "how long the lock outlives a crash of this host (default: 30s)",
      },
      "at-least": {
        value: "DURATION",
        text: "hold the lock at least this long, even if the command finishes sooner",
      },
      "at-most": { value: "DURATION", text: "end the command after this time" },
      "kill-after": {
        value: "DURATION",
        text: "the time between SIGTERM and SIGKILL (default: 5s)",
      },
      "conflict-exit-code": {
        short: "E",
        value: "CODE",
        text: "the exit code if the lock stays busy (default: 75; use 0 for cron)",
      },
      label: {
        value: "TEXT",
        text: "a label that names the holder in ls, show and messages, such as host:pid (default: none)",
      },
      quiet: { short: "q", text: "print only errors of the command line or the backend" },
      verbose: {
        short: "v",
        text: "print which store is used, what it protects, and what happens",
      },
      ...OF_ALL,
    },
  },
  ls: { usage: "ls [options]", text: "list the live locks", options: { ...OF_LOOKING, ...OF_ALL } },
  show: {
    usage: "show KEY [options]",
    text: "show the lock on a key; exits with 1 if there is none",
    options: { ...OF_LOOKING, ...OF_ALL },
  },
  release: {
    usage: "release KEY --force [options]",
    text: "take a lock away from its holder; exits with 1 if there is none",
    options: { force: { text: "required, because the holder is not asked" }, ...OF_ALL },
  },
  schema: {
    usage: "schema [options]",
    text: "print the SQL that creates the tables in PostgreSQL; other stores need none",
    options: {
      apply: { text: "run the SQL; it changes nothing that exists" },
      "holder-labels": { text: "include the column that --label needs" },
      ...OF_ALL,
    },
  },
  doctor: {
    usage: "doctor [options]",
    text: "check the store and its setup by using it; exits with 1 if something is wrong",
    options: { json: OF_LOOKING.json, ...OF_ALL },
  },
};

/** Options that need no command.
 * @type {Record<string, Option>} */
export const GLOBAL_OPTIONS = {
  help: OF_ALL.help,
  version: { text: "show the version" },
};
