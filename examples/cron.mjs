// A scheduled job that several hosts start and one of them runs. Put the same line into the crontab
// of each host:
//
//   */5 * * * *  SYNCGUARD_URL=redis://cache.internal:6379 node /srv/app/examples/cron.mjs
//
// Without SYNCGUARD_URL the lock protects this host only, so every host would run the job.
// `minHoldMs` holds the lock for a minute even if the job takes a second, because another host's clock
// may be a little behind. Choose a time longer than the clocks differ and shorter than the schedule.

import { setTimeout as sleep } from "node:timers/promises";
import { tryLock } from "syncguard";

const [job = "report", minHoldMs = "60000"] = process.argv.slice(2);

async function runJob({ fence, signal }) {
  console.log(`${job} is running, fence ${fence}`);
  await sleep(100, undefined, { signal }); // the work, which ends early if the lock is lost
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
