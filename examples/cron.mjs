// A scheduled job that several hosts start, and one of them runs. Put the same line into the crontab
// of each:
//
//   */5 * * * *  SYNCGUARD_URL=redis://… node /srv/app/examples/cron.mjs
//
// Without SYNCGUARD_URL the lock is one of this host. `minHoldMs` keeps it for a minute also when the
// job takes a second, for a host whose clock is a little behind: it must be longer than clocks differ,
// and shorter than the schedule.

import { setTimeout as sleep } from "node:timers/promises";
import { tryLock } from "syncguard";

const [job = "report", minHoldMs = "60000"] = process.argv.slice(2);

async function runJob({ fence, signal }) {
  console.log(`${job} runs, fence ${fence}`);
  await sleep(100, undefined, { signal }); // the work: ends early when the lock is lost
}

try {
  const { ok } = await tryLock(runJob, {
    key: `cron:${job}`,
    autoExtend: true,
    minHoldMs: Number(minHoldMs),
    throwIfLost: true,
  });
  console.log(ok ? `${job} is done` : `${job} is run by another host`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
