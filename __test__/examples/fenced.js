// The tests that all examples of fenced writes share.

import { expect, test } from "vitest";
import { run, start } from "./program.js";

/**
 * @param {string} name of the example
 * @param {() => { args: string[], env?: object, stored: () => Promise<object> }} setUp names a
 *   report that nobody has written yet; `stored` reads its `body` and `fence`
 */
export function fencedWrites(name, setUp) {
  const fence = (number) => String(number).padStart(15, "0");

  test("every holder writes twice", async () => {
    const { args, env, stored } = setUp();
    for (const holder of [1, 2]) {
      const { code, lines } = await run(name, [...args, 0], env);
      expect(lines).toEqual([
        `${fence(holder)} wrote "in progress"`,
        expect.stringMatching(`^${fence(holder)} wrote "done by process \\d+"$`),
      ]);
      expect(code).toBe(0);
    }
    expect(await stored()).toMatchObject({ fence: fence(2) });
  });

  test("a write is refused if its holder was paused for too long", async () => {
    const { args, env, stored } = setUp();
    const paused = start(name, [...args, 5_000], env);
    await paused.line(/in progress/);
    paused.kill("SIGSTOP");

    const next = start(name, [...args, 0], env);
    expect(await next.exit()).toMatchObject({ code: 0 });
    const expected = { body: `done by process ${next.pid}`, fence: fence(2) };
    expect(await stored()).toEqual(expected);

    paused.kill("SIGCONT");
    const { code, lines } = await paused.exit();
    expect(lines).toEqual([
      `${fence(1)} wrote "in progress"`,
      `refused: a later holder has written, ${fence(1)} is too old`,
    ]);
    expect(code).toBe(1);
    expect(await stored()).toEqual(expected);
  });
}
