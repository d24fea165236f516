// The signals that we get, and who is told of them.

import { constants } from "node:os";

/** Those that would end this process, with the lock left behind. */
const ENDING = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM"],
  ...["SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGBREAK"],
];
const OTHERS = ["SIGWINCH", "SIGTSTP", "SIGCONT"];

/** From when it is made, no signal that can be caught ends this process. */
export class Signals {
  #waiting = new AbortController();
  /** @type {((signal: NodeJS.Signals) => void) | undefined} */
  #receiver;
  /** The first that came while nobody was there to get it.
   * @type {NodeJS.Signals | undefined} */
  ending;

  constructor() {
    for (const name of [...ENDING, ...OTHERS]) {
      if (name in constants.signals)
        process.on(name, () => this.#receive(/** @type {any} */ (name)));
    }
  }

  /** Aborted by the first that ends a program: while nobody else gets them. */
  get signal() {
    return this.#waiting.signal;
  }

  /** @param {(signal: NodeJS.Signals) => void} receiver */
  sendTo(receiver) {
    this.#receiver = receiver;
  }

  /** @param {NodeJS.Signals} name */
  #receive(name) {
    if (this.#receiver !== undefined) this.#receiver(name);
    else if (ENDING.includes(name)) {
      this.ending ??= name;
      this.#waiting.abort();
    }
    // As it would have been without us: the shell waits for that.
    if (name === "SIGTSTP") process.kill(process.pid, "SIGSTOP");
  }
}
