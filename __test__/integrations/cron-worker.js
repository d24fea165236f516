// A process of a fleet that shares a schedule of every second. It prints what becomes of each run.

const { module, options, cron, clockAheadMs = 0, dieAtRun } = JSON.parse(process.argv[2]);

// The clock of this host. Everything that asks for the time in JavaScript gets this one.
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + clockAheadMs);
    else super(...args);
  }
  static now() {
    return RealDate.now() + clockAheadMs;
  }
};

const { createRunCoordinator } = await import("../../js/node-cron.js");
const { schedule, setLogger, setRunCoordinator } = await import(cron);
const { open } = await import(module);
const print = (what, { date }, detail = "") => console.log(what, date.toISOString(), detail);

setLogger({ info() {}, warn() {}, debug() {}, error: (...args) => console.error(...args) });
setRunCoordinator(createRunCoordinator(await open(options)));

let runs = 0;
const task = schedule(
  "* * * * * *",
  (context) => {
    print("ran", context);
    runs += 1;
    if (runs === dieAtRun) process.kill(process.pid, "SIGKILL");
  },
  { name: "every-second", distributed: true },
);
task.on("execution:skipped", (context) => print("skipped", context, context.reason));
task.on("execution:missed", (context) => print("missed", context));
console.log("ready");
