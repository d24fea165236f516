// syncguard run --label names the holder in ls, in show and to waiters.

import { beforeAll, describe, expect, test } from "vitest";
import { BACKENDS, connect } from "./backends.js";
import { cli, startCli, startOnTerminal } from "./cli.js";
import { until } from "../fixtures/wait.js";

const LABEL = "web-1:42 nightly";
const lines = (text) => text.split("\n").slice(0, -1);

describe.each(BACKENDS)("%s", (kind) => {
  let at;
  beforeAll(async () => (at = await connect(kind)));

  const run = (...args) => cli([...args, ...at.args]);

  test("ls, show and the message of a refused lock name the holder", async () => {
    expect((await run("schema", "--holder-labels", "--apply")).code).toBe(0);
    const key = at.key();
    const command = ["--", "sh", "-c", "echo in; read line"];
    const holder = startCli(["run", key, "--label", LABEL, ...at.args, ...command]);
    await holder.said("in");
    const nameless = at.key();
    const { lockId } = await at.backend.acquire({ key: nameless, ttlMs: 60_000 });

    const [, head, ...rows] = lines((await run("ls", "--raw")).stdout);
    expect(head).toMatch(/EXPIRES IN +LABEL$/);
    const rowOf = (name) => rows.find((row) => row.startsWith(`${name} `));
    expect(rowOf(key)).toMatch(new RegExp(` ${LABEL}$`));
    expect(rowOf(nameless)).not.toContain(LABEL);
    const listed = lines((await run("ls", "--json", "--raw")).stdout).map((line) =>
      JSON.parse(line),
    );
    expect(listed.find((one) => one.key === key).holderLabel).toBe(LABEL);
    expect(listed.find((one) => one.key === nameless)).not.toHaveProperty("holderLabel");

    expect((await run("show", key)).stdout).toMatch(new RegExp(`^label +${LABEL}$`, "m"));
    expect(JSON.parse((await run("show", key, "--json")).stdout).holderLabel).toBe(LABEL);
    expect((await run("show", nameless)).stdout).not.toContain("label");

    const refused = await cli(["run", key, "-n", ...at.args, "--", "echo", "never"]);
    const expected = {
      code: 75,
      stdout: "",
      stderr: expect.stringMatching(
        new RegExp(`^syncguard: the lock is busy: ${LABEL} has it; its lease `),
      ),
    };
    expect(refused).toMatchObject(expected);
    const impatient = ["run", key, "-w", "100ms", ...at.args, "--", "echo", "never"];
    expect(await cli(impatient)).toMatchObject(expected);
    const silent = await cli(["run", key, "-n", "-q", ...at.args, "--", "echo", "never"]);
    expect(silent).toMatchObject({ code: 75, stderr: "" });

    holder.child.stdin.end("\n");
    expect((await holder.ended).code).toBe(0);
    await at.backend.release({ lockId });
  });
});

test("PostgreSQL needs a column, and the error says so", async () => {
  const at = await connect("postgres");
  const run = (...args) => cli([...args, ...at.args]);
  const labelled = () => cli(["run", at.key(), "--label", LABEL, ...at.args, "--", "echo", "in"]);
  const { code, stdout, stderr } = await labelled();
  expect([code, stdout]).toEqual([78, ""]);
  expect(stderr).toContain("setupSchema()");
  expect(stderr).toContain("--holder-labels");
  const { stdout: sql } = await run("schema", "--holder-labels");
  expect(sql).toContain("ADD COLUMN IF NOT EXISTS holder_label TEXT");
  expect((await run("schema")).stdout).not.toContain("ADD COLUMN");
  for (let times = 0; times < 2; times += 1) {
    expect((await run("schema", "--holder-labels", "--apply")).code).toBe(0);
  }
  // Whoever asks for less afterwards takes nothing away.
  expect((await run("schema", "--apply")).code).toBe(0);
  expect(await labelled()).toMatchObject({ code: 0, stdout: "in\n" });
});

test("a wait on a terminal names the holder", async () => {
  const at = await connect("sqlite");
  const key = at.key();
  const command = ["--", "sh", "-c", "echo in; read line"];
  const holder = startCli(["run", key, "--label", LABEL, ...at.args, ...command]);
  await holder.said("in");
  const waiter = startOnTerminal(["run", key, ...at.args, "--", "true"]);
  await until(() => waiter.stdout.includes(`held by ${LABEL} since`), "the waiting line");
  holder.child.stdin.end("\n");
  expect((await waiter.ended).code).toBe(0);
});

test.each(["", "a\nb", "\u001b[2J", "x".repeat(129)])(
  "the label %j is wrong usage",
  async (label) => {
    const { code, stderr } = await cli(["run", "k", "--label", label, "--", "true"]);
    expect(code).toBe(64);
    expect(stderr).toMatch(/^syncguard: --label must be [^\n]+\.\n$/);
  },
);
