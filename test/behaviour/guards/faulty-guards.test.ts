// Goal: whatever is wrong with a guard, the call is denied, the model reads it, and the run
// continues.
// Method: guards that throw, hang and return nonsense, one per run; a manual clock.

import { describe, expect, test } from "vitest";

import { takeWarnings } from "../../harness/process-watch.ts";
import { says, asks } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import { quiet, receivedTexts } from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  allows,
  fates,
  giving,
  guardings,
  refusal,
  watch,
} from "../../support/guard-stories.ts";

interface Denied {
  readonly fixture: Fixture;
  readonly text: string;
}

/** Runs one call past the guard, which must deny it; returns the message to the model. */
async function denied(given: () => unknown): Promise<Denied> {
  const tool = spyTool("send");
  const { role, model } = soloist([asks("send", {}), says("done")], {
    tools: [tool],
    guards: [allows(), giving(given)],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([ending(result), fates(result), tool.calls.length]).toEqual([
    ["completed", "completed"],
    [["refused", "blocked", "odd"]],
    0,
  ]);
  const [text = ""] = receivedTexts(model.requests[1]);
  return { fixture, text };
}

function throwing(thrown: unknown): () => never {
  return () => {
    throw thrown;
  };
}

function withPrototype(prototype: object | null, own: object): object {
  Object.setPrototypeOf(own, prototype);
  return own;
}

const revoked = Proxy.revocable({}, {});
revoked.revoke();

const THROWN: Readonly<Record<string, readonly [unknown, string]>> = {
  "an error": [new Error("broken"), "broken"],
  "an error without a message": [new Error(), ""],
  "a text": ["broken", "broken"],
  nothing: [undefined, "undefined"],
  null: [null, "null"],
  "a symbol": [Symbol("broken"), "Symbol(broken)"],
  "an object": [{ message: "broken" }, "[object Object]"],
  "an object that cannot be shown": [Object.create(null), "a value without a text"],
  "something that may not be looked at": [revoked.proxy, "a value without a text"],
  "an error whose message throws": [
    Object.defineProperty(new Error(), "message", { get: throwing(new Error("no")) }),
    "a value without a text",
  ],
};

describe("a guard that fails", () => {
  for (const [what, [thrown, shown]] of Object.entries(THROWN)) {
    proves(["R66"], `denies when it throws ${what}, at once or later`, async () => {
      for (const given of [throwing(thrown), async () => throwing(thrown)()]) {
        const { fixture, text } = await denied(given);
        const reason = `The guard odd failed: ${shown}.`;
        expect(text).toBe(refusal("send", reason));
        expect(guardings(fixture)).toEqual([["send", "deny", "allow allow", `odd deny ${reason}`]]);
      }
    });
  }

  test("denies when its thenable rejects, or throws when it is read", async () => {
    const later = {
      // oxlint-disable-next-line unicorn/no-thenable -- the thenable is under test
      then: (_resolve: unknown, reject: (why: unknown) => void) => reject(new Error("foreign")),
    };
    expect((await denied(() => later)).text).toBe(
      refusal("send", "The guard odd failed: foreign."),
    );
    // oxlint-disable-next-line unicorn/no-thenable -- the thenable is under test
    const hostile = Object.defineProperty({}, "then", { get: throwing(new Error("no then")) });
    expect((await denied(() => hostile)).text).toBe(
      refusal("send", "The guard odd failed: no then."),
    );
  });

  test("redacts the secrets in its error", async () => {
    const key = `sk-proj-${"a1B2".repeat(8)}`;
    const { text } = await denied(throwing(new Error(`no access with ${key}`)));
    expect(text).toBe(refusal("send", "The guard odd failed: no access with [redacted]."));
    const answer = Object.defineProperty({}, "type", { get: throwing(new Error(`key ${key}`)) });
    for (const given of [() => answer, () => `not with ${key}`]) {
      const later = await denied(given);
      expect(`${later.text} ${JSON.stringify(guardings(later.fixture))}`).not.toContain(key);
      await flushEventLoop();
      expect(takeWarnings().join()).not.toContain(key);
    }
  });
});

const NONSENSE: Readonly<Record<string, () => unknown>> = {
  nothing: () => undefined,
  null: () => null,
  true: () => true,
  false: () => false,
  "the word allow": () => "allow",
  "an array": () => [{ type: "allow" }],
  "an empty object": () => ({}),
  "an unknown type": () => ({ type: "stop", reason: "Enough." }),
  "a type in capitals": () => ({ type: "ALLOW" }),
  "a type that is a set": () => ({ type: new Set(["allow"]) }),
  "a type that is a list": () => ({ type: ["allow"] }),
  "a denial without a reason": () => ({ type: "deny" }),
  "a denial with an empty reason": () => ({ type: "deny", reason: " \n" }),
  "a denial with a number": () => ({ type: "deny", reason: 7 }),
  "a question without a reason": () => ({ type: "ask" }),
  "a function": () => () => ALLOW,
  "a promise within an object": () => ({ type: Promise.resolve("allow") }),
  "a getter that throws": () =>
    Object.defineProperty({}, "type", { get: throwing(new Error("no")) }),
  "a revoked proxy": () => revoked.proxy,
  "a proxy that throws": () => new Proxy({}, { get: throwing(new Error("no")) }),
  "a reason that throws": () =>
    Object.defineProperty({ type: "deny" }, "reason", { get: throwing(new Error("no")) }),
};

const TOLD = 'EspalierWarning: Expected the guard odd to return { type: "allow" }';

describe("a guard without a valid answer", () => {
  for (const [what, given] of Object.entries(NONSENSE)) {
    test(`denies when it returns ${what}`, async () => {
      for (const way of [given, async () => await given()]) {
        const { text } = await denied(way);
        expect(text).toMatch(
          /^Not executed: send was denied\. The guard odd (returned no usable decision|failed).* Do without it/,
        );
        // The author is warned, too, unless the guard failed.
        await flushEventLoop();
        const told = takeWarnings().map((warning) => warning.slice(0, TOLD.length));
        expect(told).toEqual(text.includes("returned no usable decision") ? [TOLD] : []);
      }
    });
  }

  test("is read once, so that it cannot change its answer between reads", async () => {
    let reads = 0;
    const shifty = Object.defineProperties(
      {},
      {
        type: { get: () => (reads++ === 0 ? "deny" : "allow") },
        reason: { get: () => (reads === 1 ? "First." : 7) },
      },
    );
    const { text } = await denied(() => shifty);
    expect([text, reads]).toEqual([refusal("send", "First."), 1]);
  });
});

describe("a guard with an unusual answer", () => {
  const ODD: Readonly<Record<string, () => unknown>> = {
    "a promise of a promise": () =>
      Promise.resolve(
        // oxlint-disable-next-line unicorn/no-thenable -- a nested promise
        { then: (resolve: (value: unknown) => void) => resolve(Promise.resolve(ALLOW)) },
      ),
    "a frozen object": () => Object.freeze({ type: "allow" }),
    "an object without a prototype": () => withPrototype(null, { type: "allow" }),
    "more than is asked": () => ({ type: "allow", reason: "Fine.", stop: true, arguments: {} }),
    "a proxy that answers": () => new Proxy({ type: "allow" }, {}),
    "an inherited answer": () => withPrototype({ type: "allow" }, {}),
  };
  for (const [what, given] of Object.entries(ODD)) {
    test(`allows with ${what}`, async () => {
      const tool = spyTool("send");
      const script = [asks("send", {}), says("done")];
      const { role } = soloist(script, { tools: [tool], guards: [giving(given)] });
      const fixture = newFixture();
      const result = await fixture.run(role);
      expect([fates(result), tool.calls.length]).toEqual([[["succeeded"]], 1]);
      expect(guardings(fixture)).toEqual([["send", "allow", "odd allow"]]);
    });
  }
});

describe("a slow guard", () => {
  test("is awaited within the timeout of hooks, and its answer counts", async () => {
    const slow = latch();
    const watching = watch(async () => {
      await slow.opened;
      return ALLOW;
    });
    const tool = spyTool("send");
    const script = [asks("send", {}), says("done")];
    const { role } = soloist(script, { tools: [tool], guards: [watching.guard] });
    const fixture = newFixture({ hookTimeoutMs: 1_000 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(999);
    await quiet();
    expect(tool.calls.length).toBe(0);
    slow.open();
    const result = await fixture.outcome(run);
    expect([fates(result), result.durationMs]).toEqual([[["succeeded"]], 999]);
    expect(watching.asked[0]?.[1].signal.aborted).toBe(false);
  });

  proves(["R66"], "denies when it never settles, and its signal is aborted", async () => {
    const never = watch(() => new Promise(() => {}), { name: "never" });
    const tool = spyTool("send");
    const { role, model } = soloist([asks("send", {}), says("done")], {
      tools: [tool],
      guards: [never.guard, allows()],
    });
    const fixture = newFixture({ hookTimeoutMs: 1_000 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(999);
    await quiet();
    expect([
      fixture.sink.ofType("tool.guarded").length,
      never.asked[0]?.[1].signal.aborted,
    ]).toEqual([0, false]);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    const reason = "The guard never did not answer in time.";
    expect([ending(result), fates(result), tool.calls.length]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "never"]],
      0,
    ]);
    expect(receivedTexts(model.requests[1])).toEqual([refusal("send", reason)]);
    expect(guardings(fixture)).toEqual([["send", "deny", `never deny ${reason}`, "allow allow"]]);
    expect(never.asked[0]?.[1].signal.aborted).toBe(true);
  });

  test("is ignored after its timeout, whether it answers or fails", async () => {
    for (const late of [() => ALLOW, throwing(new Error("late"))]) {
      const slow = latch();
      const guard = toolGuard(
        async () => {
          await slow.opened;
          return late();
        },
        { name: "slow" },
      );
      const tool = spyTool("send");
      const { role } = soloist([asks("send", {}), says("done")], {
        tools: [tool],
        guards: [guard],
      });
      const fixture = newFixture({ hookTimeoutMs: 10 });
      const run = fixture.start(role);
      await quiet();
      fixture.clock.advance(10);
      const result = await fixture.outcome(run);
      const events = fixture.sink.events.length;
      slow.open();
      await quiet();
      expect([fates(result), tool.calls.length, fixture.sink.events.length]).toEqual([
        [["refused", "blocked", "slow"]],
        0,
        events,
      ]);
    }
  });

  test("has a timeout of a minute by default", async () => {
    const never = watch(() => new Promise(() => {}), { name: "never" });
    const script = [asks("send", {}), says("done")];
    const { role } = soloist(script, { tools: [spyTool("send")], guards: [never.guard] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(59_999);
    await quiet();
    expect(fixture.sink.ofType("tool.guarded")).toEqual([]);
    fixture.clock.advance(1);
    expect(fates(await fixture.outcome(run))).toEqual([["refused", "blocked", "never"]]);
  });

  test("consumes the time of its agent, whose time limit ends the call", async () => {
    const never = watch(() => new Promise(() => {}), { name: "never" });
    const { role } = soloist([asks("send", {})], {
      tools: [spyTool("send")],
      guards: [never.guard],
      budget: { timeMs: 500 },
    });
    const fixture = newFixture({ graceMs: 20 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(500);
    await quiet();
    expect(never.asked[0]?.[1].signal.aborted).toBe(true);
    fixture.clock.advance(20);
    const result = await fixture.outcome(run);
    expect([ending(result), fates(result)]).toEqual([
      ["stopped", "time_limit"],
      [["not_executed", "not_executed"]],
    ]);
  });
});
