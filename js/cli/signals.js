// Receives signals and forwards them to the command.

import { constants } from "node:os";

/** Signals that would end this process and leave the lock behind. */
const ENDING = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM"],
  ...["SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGBREAK"],
];
const OTHERS = ["SIGWINCH", "SIGCONT"];

/** While this exists, no signal that can be caught ends this process. */
export class Signals {
  #waiting = new AbortController();
  /** @type {((signal: NodeJS.Signals) => void) | undefined} */
  #receiver;
  /** The first signal to end the program that came before there was a receiver.
   * @type {NodeJS.Signals | undefined} */
  ending;
  #isStopPending = false;

  constructor() {
    for (const name of [...ENDING, ...OTHERS]) {
      if (name in constants.signals) this.#listen(/** @type {NodeJS.Signals} */ (name));
    }
  }

  /** Aborted by the first such signal. */
  get signal() {
    return this.#waiting.signal;
  }

  /**
   * Announces a command that must stop whenever this process stops. A request to stop that arrives while
   * the command starts is kept until `sendTo`: otherwise only this process would stop.
   */
  stopWithReceiver() {
    this.#listen("SIGTSTP");
  }

  /** @param {(signal: NodeJS.Signals) => void} receiver */
  sendTo(receiver) {
    this.#receiver = receiver;
    if (this.#isStopPending) this.#receive("SIGTSTP");
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
    if (name !== "SIGTSTP") return;
    this.#isStopPending = this.#receiver === undefined;
    // The default action, which a listener replaces.
    if (!this.#isStopPending) process.kill(process.pid, "SIGSTOP");
  }
}
