// The signals that we get, and who is told of them.

import { constants } from "node:os";

/** Those that would end this process, with the lock left behind. */
const ENDING = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM"],
  ...["SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGBREAK"],
];
const OTHERS = ["SIGWINCH", "SIGCONT"];

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
      if (name in constants.signals) this.#listen(/** @type {NodeJS.Signals} */ (name));
    }
  }

  /** Aborted by the first that ends a program: while nobody else gets them. */
  get signal() {
    return this.#waiting.signal;
  }

  /**
   * @param {(signal: NodeJS.Signals) => void} receiver
   * @param {boolean} stopsWithUs whether it must be told to stop when we do
   */
  sendTo(receiver, stopsWithUs) {
    this.#receiver = receiver;
    if (stopsWithUs) this.#listen("SIGTSTP");
  }

  /** @param {NodeJS.Signals} name */
  #listen(name) {
    process.on(name, () => this.#receive(name));
  }

  /** @param {NodeJS.Signals} name */
  #receive(name) {
    if (this.#receiver !== undefined) this.#receiver(name);
    else if (ENDING.includes(name)) {
      this.ending ??= name;
      this.#waiting.abort();
    }
    // As without us.
    if (name === "SIGTSTP") process.kill(process.pid, "SIGSTOP");
  }
}
