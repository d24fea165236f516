// syncguard schema: prints or creates the tables that a PostgreSQL database needs.

import { readStore, withBackend } from "./backend.js";
import { EXIT } from "./exit.js";
import { print } from "./output.js";

/** @typedef {import("./parse.js").CommandLine} CommandLine */

/** Stores that need no schema, by the name of the backend.
 * @type {Record<string, string>} */
const NEED_NONE = { redis: "Redis", firestore: "Firestore", sqlite: "SQLite" };

/**
 * @param {CommandLine} line
 * @returns {Promise<number>}
 */
export function schema({ options }) {
  return withBackend(options, async ({ backend }) => {
    const name = NEED_NONE[backend.capabilities.backend];
    if (name !== undefined) {
      print(`${name} needs no schema.\n`);
      return EXIT.OK;
    }
    const { text, options: names } = readStore(options);
    const tables = { ...names, holderLabel: options["holder-labels"] === true };
    const { schemaSql, setupSchema } = await import("../targets/postgres/backend.js");
    if (options.apply) {
      await setupSchema(text, tables);
      print("The tables exist.\n");
    } else {
      print(schemaSql(text, tables));
    }
    return EXIT.OK;
  });
}
