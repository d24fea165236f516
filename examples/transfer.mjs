// A transfer between two accounts, each in a file of its own. It changes both, so it locks both. Two
// transfers in opposite directions do not block each other for good: the keys are always acquired in
// the same order, whatever order they are written in.
//
//   SYNCGUARD_URL=redis://… node examples/transfer.mjs open /srv/accounts alice 100
//   SYNCGUARD_URL=redis://… node examples/transfer.mjs send /srv/accounts alice bob 5
//   node examples/transfer.mjs balance /srv/accounts alice
//
// If the process is killed between the two writes, half of the transfer is done. Programs for real money
// write down first what they are about to do, or keep both accounts in one database with transactions.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { lock } from "syncguard";

const [command, folder, ...rest] = process.argv.slice(2);
const keyOf = (account) => `account:${account}`;
const acquisition = { timeoutMs: 30_000 };

/** Reads the file with the highest fence. */
async function balanceOf(account) {
  const names = await readdir(folder);
  const own = names.filter((name) => name.startsWith(`${account}.`)).sort();
  if (own.length === 0) throw new Error(`there is no account ${account}`);
  return Number(await readFile(join(folder, own.at(-1)), "utf8"));
}

/** The fence is part of the name, so a holder that comes too late overwrites nothing: see fenced-file.mjs. */
const setBalance = (account, balance, fence) =>
  writeFile(join(folder, `${account}.${fence}`), String(balance));

async function send(from, to, amount) {
  if (from === to) throw new Error("the two accounts are the same");
  await lock(
    async ({ fences }) => {
      const [before, beforeOther] = [await balanceOf(from), await balanceOf(to)];
      if (before < amount) throw new Error(`${from} has only ${before}`);
      // Each key has a fence of its own, which goes with the writes to its account.
      await setBalance(from, before - amount, fences[keyOf(from)]);
      await setBalance(to, beforeOther + amount, fences[keyOf(to)]);
    },
    { keys: [keyOf(from), keyOf(to)], acquisition },
  );
}

try {
  if (command === "open") {
    const [account, balance] = rest;
    const key = keyOf(account);
    await lock(({ fence }) => setBalance(account, balance, fence), { key, acquisition });
  } else if (command === "send") {
    const [from, to, amount, times = "1"] = rest;
    for (let time = 0; time < Number(times); time += 1) await send(from, to, Number(amount));
    console.log(`sent ${Number(amount) * Number(times)} from ${from} to ${to}`);
  } else {
    console.log(await balanceOf(rest[0]));
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
