// Each check of a recorded history: silent about what is promised, and not about what is not.

import { describe, expect, test } from "vitest";
import { lostUpdates, pausedSections } from "../../prove/check/updates.mjs";
import { failover, find, history, life, turn, write } from "./histories.js";

const FINE = { violations: 0, excused: 0 };
const BROKEN = { violations: 1, excused: 0 };
const EXCUSED = { violations: 0, excused: 1 };

const first = turn("a", { f: 1, from: 100, to: 200 });

describe("one holder", () => {
  const name = "one holder";
  test("one after the other", () => {
    expect(find(name, first, turn("b", { p: "1.1", f: 2, from: 201, to: 300 }))).toEqual(FINE);
  });
  test("two at once on two keys", () => {
    expect(find(name, first, turn("b", { k: "other", f: 1, from: 150, to: 300 }))).toEqual(FINE);
  });
  test("two at once", () => {
    expect(find(name, first, turn("b", { p: "1.1", f: 2, from: 150, to: 300 }))).toEqual(BROKEN);
  });
  test("one inside another, and one after that", () => {
    const long = turn("a", { f: 1, from: 100, to: 900 });
    const others = [
      turn("b", { f: 2, from: 200, to: 300 }),
      turn("c", { f: 3, from: 400, to: 500 }),
    ];
    expect(find(name, long, ...others)).toEqual({ violations: 2, excused: 0 });
  });
  test("a paused holder that no longer relied on its lock", () => {
    const paused = turn("a", { f: 1, from: 100, to: 900, believedTo: 120, kept: false });
    expect(find(name, paused, turn("b", { p: "1.1", f: 2, from: 500, to: 600 }))).toEqual(FINE);
  });
  test("two at once in a failover", () => {
    const second = turn("b", { p: "1.1", f: 2, from: 150, to: 300 });
    expect(find(name, first, second, failover(140, 145))).toEqual(EXCUSED);
    expect(find(name, first, second, failover(9_000, 9_100))).toEqual(BROKEN);
  });
});

describe("one holder, of keys that are shared", () => {
  const name = "one holder";
  const sharer = (s, slot, { from = 100, to = 200, limit = 2 } = {}) =>
    turn(s, { f: slot + 1, from, to, limit, slot });
  test("as many as there may be", () => {
    expect(find(name, sharer("a", 0), sharer("b", 1, { from: 150 }))).toEqual(FINE);
  });
  test("one more", () => {
    const third = sharer("c", 2, { from: 160 });
    expect(find(name, sharer("a", 0), sharer("b", 1, { from: 150 }), third)).toEqual(BROKEN);
  });
  test("one more, which allows more", () => {
    const third = sharer("c", 2, { from: 160, limit: 3 });
    expect(find(name, sharer("a", 0), sharer("b", 1, { from: 150 }), third)).toEqual(FINE);
  });
  test("a slot that was left", () => {
    const next = sharer("c", 0, { from: 250, to: 300 });
    expect(find(name, sharer("a", 0), sharer("b", 1, { to: 300 }), next)).toEqual(FINE);
  });
  test("the same slot", () => {
    expect(find(name, sharer("a", 1), sharer("b", 1, { from: 150 }))).toEqual(BROKEN);
  });
  test("a writer beside a reader", () => {
    const writer = turn("w", { f: 7, from: 150, to: 160 });
    expect(find(name, sharer("a", 0), writer)).toEqual(BROKEN);
    expect(find(name, writer, sharer("a", 0, { from: 155 }))).toEqual(BROKEN);
    expect(find(name, sharer("a", 0, { to: 150 }), writer)).toEqual(FINE);
  });
});

describe("fences rise, of keys that are shared", () => {
  const name = "fences rise";
  const sharer = (s, f, slot, from) => turn(s, { f, from, to: from + 100, limit: 3, slot });
  test("holders of different slots may start in any order", () => {
    expect(find(name, sharer("a", 2, 0, 100), sharer("b", 1, 1, 110))).toEqual(FINE);
  });
  test("but not with the same fence", () => {
    expect(find(name, sharer("a", 2, 0, 100), sharer("b", 2, 1, 110))).toEqual(BROKEN);
  });
  test("one goes back in its slot", () => {
    expect(find(name, sharer("a", 2, 0, 100), sharer("b", 1, 0, 300))).toEqual(BROKEN);
  });
  test("a writer has a higher fence than the readers before it, and a lower one than those after", () => {
    const writer = (f) => turn("w", { f, from: 300, to: 400 });
    const readers = [sharer("a", 1, 0, 100), sharer("b", 3, 1, 100), sharer("c", 5, 0, 500)];
    expect(find(name, ...readers, writer(4))).toEqual(FINE);
    expect(find(name, ...readers, writer(2))).toEqual(BROKEN);
    expect(find(name, ...readers, writer(6))).toEqual(BROKEN);
  });
});

describe("fences rise", () => {
  const name = "fences rise";
  const later = (f, more) => turn("b", { p: "1.1", f, from: 300, to: 400, ...more });
  test("they do, with gaps", () => {
    expect(find(name, first, later(7))).toEqual(FINE);
  });
  test("one goes back", () => {
    expect(find(name, turn("a", { f: 5, from: 100, to: 200 }), later(4))).toEqual(BROKEN);
  });
  test("a repeated fence neither rises nor is new", () => {
    expect(find(name, first, later(1))).toEqual({ violations: 2, excused: 0 });
  });
  test("a holder that starts late because it was paused", () => {
    const paused = { held: false, believedTo: null, kept: false };
    const earlier = turn("a", { f: 2, from: 100, to: 200 });
    expect(find(name, earlier, later(1, paused))).toEqual(FINE);
    expect(find(name, earlier, later(2, paused))).toEqual(BROKEN);
  });
  test("two holders that share a lock may start in any order, but not with the same fence", () => {
    const far = [
      { e: "fault", kind: "clock", lane: "process 0", from: 90, to: 310, mayShareLocks: true },
    ];
    const higher = turn("a", { f: 5, from: 100, to: 200 });
    expect(find(name, higher, later(4), far)).toEqual(EXCUSED);
    expect(find(name, higher, later(5), far)).toEqual({ violations: 1, excused: 1 });
    expect(find("one holder", higher, turn("b", { f: 6, from: 150, to: 300 }), far)).toEqual(
      EXCUSED,
    );
  });
  test("after a failover fences may start again and rise from there", () => {
    const before = turn("a", { f: 5, from: 100, to: 200 });
    const after = [4, 5, 6].map((f, index) =>
      turn(`c${f}`, { f, from: 20_000 + index * 100, to: 20_050 + index * 100 }),
    );
    // The fence 5 was there before.
    const found = { violations: 0, excused: 2 };
    expect(find(name, before, failover(10_000, 11_000), ...after)).toEqual(found);
    const back = turn("d", { f: 3, from: 21_000, to: 21_100 });
    expect(find(name, before, failover(10_000, 11_000), ...after, back)).toEqual({
      ...found,
      violations: 1,
    });
  });
});

describe("no guarded update lost", () => {
  const name = "no guarded update lost";
  const turns = ["a", "b", "c"].map((id, index) =>
    turn(id, { f: index + 1, from: index * 100, to: index * 100 + 50 }),
  );
  test("each update is based on the one before", () => {
    expect(
      find(name, ...turns, write(10, "a", null), write(110, "b", "a"), write(210, "c", "b")),
    ).toEqual(FINE);
  });
  test("an update is based on an old one", () => {
    expect(
      find(name, ...turns, write(10, "a", null), write(110, "b", "a"), write(210, "c", "a")),
    ).toEqual(BROKEN);
  });
  test("a lost update reappears", () => {
    const writes = [write(10, "a", null), write(110, "b", null), write(210, "c", "a")];
    const { accepted, lost } = lostUpdates(history(...turns, ...writes), "fenced");
    expect({ accepted, lost }).toEqual({ accepted: 3, lost: [{ update: "b", by: "c" }] });
  });
  test("lost updates of other cells do not count", () => {
    const others = { cell: "alone" };
    expect(
      find(name, ...turns, write(10, "a", null, others), write(110, "b", null, others)),
    ).toEqual(FINE);
  });
  test("in a failover", () => {
    const writes = [write(10, "a", null), write(110, "b", null)];
    expect(find(name, ...turns, ...writes, failover(60, 70))).toEqual(EXCUSED);
  });
});

describe("`fn` starts with its lock", () => {
  const name = "`fn` starts with its lock";
  const without = { held: false, believedTo: null, kept: false };
  const late = turn("a", { f: 1, from: 5_000, to: 5_100, ...without });
  test("the lock is held", () => {
    expect(find(name, first)).toEqual(FINE);
  });
  test("the lock is not held", () => {
    expect(find(name, late)).toEqual(BROKEN);
  });
  test("the process was stopped at that moment", () => {
    const stopped = (from, to) => [{ e: "stopped", t: to, w: "0.1", from, to }];
    expect(find(name, late, stopped(3_000, 4_950))).toEqual(FINE);
    expect(find(name, late, stopped(3_000, 4_000))).toEqual(BROKEN);
  });
});

describe("nothing stays locked", () => {
  const name = "nothing stays locked";
  const seen = (...times) => times.map((t) => ({ e: "seen", t, k: "k", f: "000000000000001" }));
  test("seen while it was held, and a TTL longer", () => {
    expect(find(name, first, seen(150, 1_100))).toEqual(FINE);
  });
  test("seen long after its end", () => {
    expect(find(name, first, seen(150, 5_000))).toEqual(BROKEN);
  });
  test("the holder was killed: the time counts from then on", () => {
    const [ask, enter] = first;
    const killed = life("0.1", { code: null, signal: "SIGKILL", to: 8_000 });
    expect(find(name, [ask, enter], killed, seen(150, 9_000))).toEqual(FINE);
    expect(find(name, [ask, enter], killed, seen(150, 13_000))).toEqual(BROKEN);
  });
  test("a lock that nobody used lasts no longer than the longest pause", () => {
    const other = turn("b", { f: 2, from: 100, to: 200 });
    expect(find(name, other, seen(1_000, 4_500))).toEqual(FINE);
    expect(find(name, other, seen(1_000, 9_500))).toEqual(BROKEN);
  });
  test("a key that nobody ever had", () => {
    expect(find(name)).toEqual(BROKEN);
  });
});

describe("no operation beyond its limit", () => {
  const name = "no operation beyond its limit";
  test("a wait", () => {
    expect(find(name, turn("a", { f: 1, asked: 0, from: 5_900, to: 6_000 }))).toEqual(FINE);
    expect(find(name, turn("a", { f: 1, asked: 0, from: 9_900, to: 10_000 }))).toEqual(BROKEN);
  });
  test("a wait that failed", () => {
    const [ask, , , end] = turn("a", { f: 1, asked: 0, from: 100, to: 200, ended: 9_900 });
    expect(find(name, [ask, end])).toEqual(BROKEN);
  });
  test("a release", () => {
    expect(find(name, turn("a", { f: 1, from: 0, to: 100, ended: 3_000 }))).toEqual(FINE);
    expect(find(name, turn("a", { f: 1, from: 0, to: 100, ended: 7_000 }))).toEqual(BROKEN);
  });
  test("pauses of the process do not count, even if two overlap", () => {
    const slow = turn("a", { f: 1, from: 0, to: 100, ended: 7_000 });
    const pause = (w, from, to) => ({ e: "stopped", t: to, w, from, to });
    expect(find(name, slow, [pause("0.1", 1_000, 3_000)])).toEqual(FINE);
    expect(find(name, slow, [pause("1.1", 1_000, 3_000)])).toEqual(BROKEN);
    expect(find(name, slow, [pause("0.1", 1_000, 1_500), pause("0.1", 1_100, 1_500)])).toEqual(
      BROKEN,
    );
  });
  test("a close", () => {
    const closed = (t) => [{ e: "closed", p: "0.1", from: 0, t }];
    expect(find(name, closed(10_000))).toEqual(FINE);
    expect(find(name, closed(24_000))).toEqual(BROKEN);
  });
});

describe("only LockErrors", () => {
  const name = "only LockErrors";
  const error = (fields) => [{ e: "error", t: 1, p: "0.1", s: "a", at: "wait", ...fields }];
  test("an error that fits the fault", () => {
    expect(find(name, error({ name: "LockError", code: "ServiceUnavailable" }))).toEqual(FINE);
  });
  test("an error that reveals a bug", () => {
    expect(find(name, error({ name: "LockError", code: "Internal" }))).toEqual(BROKEN);
  });
  test("an error of another class", () => {
    expect(find(name, error({ name: "TypeError: x", code: "Aborted" }))).toEqual(BROKEN);
  });
});

describe("no unexpected death", () => {
  const name = "no unexpected death";
  const killed = { code: null, signal: "SIGKILL" };
  test("a normal end, and one that we caused", () => {
    const sent = [{ e: "sent", t: 5, w: "1.1", signal: "SIGKILL" }];
    expect(find(name, life("0.1"), life("1.1", killed), sent)).toEqual(FINE);
  });
  test("a signal that nobody sent", () => {
    const sent = [{ e: "sent", t: 5, w: "1.1", signal: "SIGSTOP" }];
    expect(find(name, life("1.1", killed), sent)).toEqual(BROKEN);
    expect(find(name, life("1.1", { code: null, signal: "SIGSEGV" }))).toEqual(BROKEN);
  });
  test("an error exit code, a hang, and an end that was not recorded", () => {
    expect(find(name, life("0.1", { code: 1 }))).toEqual(BROKEN);
    const hung = [
      { e: "hung", t: 5, w: "0.1" },
      { e: "sent", t: 5, w: "0.1", signal: "SIGKILL" },
    ];
    expect(find(name, life("0.1", killed), hung)).toEqual(BROKEN);
    expect(find(name, [{ e: "spawn", t: 0, w: "0.1" }])).toEqual(BROKEN);
  });
});

describe("the undo left nothing", () => {
  const name = "the undo left nothing";
  const left = (...keys) => [{ e: "left", t: 9, keys }];
  test("nothing is left", () => {
    expect(find(name, left())).toEqual(FINE);
  });
  test("a lock is left", () => {
    expect(find(name, left("undone:0.1"), life("0.1"))).toEqual(BROKEN);
    expect(find(name, left("k"))).toEqual(BROKEN);
  });
  test("a lock is left by a killed process", () => {
    const sent = [{ e: "sent", t: 5, w: "0.1", signal: "SIGKILL" }];
    expect(find(name, left("undone:0.1"), sent)).toEqual(FINE);
    expect(find(name, left("undone:1.1"), sent)).toEqual(BROKEN);
  });
  test("a lock is left by a release that a server crash lost", () => {
    const gave = (t) => [{ e: "gave", t, p: "0.1", k: "undone:0.1" }];
    const crash = { e: "fault", kind: "crash", lane: "store", from: 5_000, to: 6_000 };
    const crashed = (more) =>
      find(name, left("undone:0.1"), [{ ...crash, mayForgetReleases: true }], ...more);
    expect(crashed([gave(4_900)])).toEqual(EXCUSED);
    expect(crashed([gave(2_000)])).toEqual(BROKEN);
    // It was free afterwards.
    expect(crashed([gave(4_900), gave(6_100)])).toEqual(BROKEN);
    expect(find(name, left("undone:0.1"), [crash], gave(4_900))).toEqual(BROKEN);
  });
  test("a lock is left by a release that reported its failure", () => {
    const quit = [{ e: "quit", t: 5, p: "0.1", k: "undone:0.1", at: "release", name: "LockError" }];
    expect(find(name, left("undone:0.1"), quit)).toEqual(FINE);
  });
});

describe("pauses and what was lost for them", () => {
  const pause = { e: "stopped", t: 2_000, w: "0.1", from: 110, to: 2_000 };
  const paused = turn("a", { f: 1, from: 100, to: 2_010, believedTo: 100, kept: false });
  const other = turn("b", { p: "1.1", f: 2, from: 1_200, to: 1_300 });
  const alone = { cell: "alone" };

  test("the paused holder is to blame", () => {
    const writes = [write(1_250, "b", null, alone), write(2_005, "a", null, alone)];
    const { hits } = pausedSections(history([pause], paused, other, ...writes), ["alone"]);
    expect(hits).toMatchObject([{ kind: "stopped", lost: { alone: 1 }, disturbed: false }]);
    expect(hits[0].ttls).toBeCloseTo(1.89);
  });
  test("the paused holder is to blame even if its own update was lost", () => {
    const writes = [write(2_005, "a", null, alone), write(2_050, "b", null, alone)];
    const { hits } = pausedSections(history([pause], paused, other, ...writes), ["alone"]);
    expect(hits).toMatchObject([{ lost: { alone: 1 } }]);
  });
  test("without a pause a lost update is unexplained", () => {
    const writes = [write(1_250, "b", null, alone), write(2_005, "a", null, alone)];
    const { hits, unexplained } = pausedSections(history(paused, other, ...writes), ["alone"]);
    expect({ hits, unexplained }).toEqual({ hits: [], unexplained: { alone: 1 } });
  });
  test("a fault of the store counts as a disturbance, and one of another process does not", () => {
    const fault = (more) => [
      { e: "fault", kind: "cut", lane: "store", from: 500, to: 600, ...more },
    ];
    const disturbedBy = (...faults) =>
      pausedSections(history([pause], paused, ...faults), ["alone"]).hits[0].disturbed;
    expect(disturbedBy(fault())).toBe(true);
    expect(disturbedBy(fault({ on: [0] }))).toBe(true);
    expect(disturbedBy(fault({ on: [1] }))).toBe(false);
  });
  test("a process that is stopped while its event loop is blocked counts as stopped once", () => {
    const blocked = { e: "blocked", t: 1_500, p: "0.1", from: 105, to: 1_500, place: "inside" };
    const { hits } = pausedSections(history([blocked, pause], paused), ["alone"]);
    expect(hits).toMatchObject([{ kind: "stopped", from: 105, to: 2_000 }]);
  });
  test("updates lost in a failover are counted separately", () => {
    const writes = [write(1_250, "b", null, alone), write(2_005, "a", null, alone)];
    const events = [[pause], paused, other, ...writes, failover(500, 600)];
    expect(pausedSections(history(...events), ["alone"])).toEqual({
      hits: [],
      unexplained: { alone: 0 },
      unpromised: { alone: 1 },
    });
  });
});
