// Another process that writes all the time. It can be stopped in the middle of a write, and the file is
// locked while it is stopped.

import { fork } from "node:child_process";
import { once } from "node:events";
import { until } from "../fixtures/wait.js";
import { open } from "./open.js";

export async function startWriter(path) {
  const probe = open({ path, operationTimeoutMs: 100 });
  const writer = fork(new URL("./busy-writer.js", import.meta.url), [JSON.stringify({ path })]);
  await once(writer, "message");
  const resume = () => void writer.kill("SIGCONT");
  return {
    resume,
    /** Stops the process in the middle of a write, by stopping it until the file is locked. */
    stop: () =>
      until(async () => {
        writer.kill("SIGSTOP");
        const locked = await probe.release({ lockId: "A".repeat(22) }).then(
          () => false,
          () => true,
        );
        if (!locked) resume();
        return locked;
      }, "the file to be locked"),
    async end() {
      const ended = once(writer, "exit");
      writer.kill("SIGKILL");
      await Promise.all([ended, probe.close()]);
    },
  };
}
