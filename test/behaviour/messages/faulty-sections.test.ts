// Goal: a section that breaks fails its agent with one coded error, whatever it does, and no
// request is sent to the model.
// Method: text functions that throw, hang, return invalid values or end late; results, events and
// timers are compared.

import { expect, test } from "vitest";

import type { RequestSection } from "../../../src/agent/request-sections.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const tools = [spyTool("work")];

function failing(text: () => unknown, more: Partial<RequestSection> = {}): Soloist {
  const section = { name: "state", lifetime: "step", ...more } as const;
  const given: unknown = text;
  if (!isText(given)) throw new Error("Expected a function.");
  return soloist([says("never")], { tools, sections: [{ ...section, text: given }] });
}

/** Accepts any function, as a program without types may pass it. */
function isText(value: unknown): value is () => string {
  return typeof value === "function";
}

function ending({ status, reason, agents }: RunResult): readonly unknown[] {
  return [status, reason.code, agents[0]?.errors.map(({ code, data }) => [code, data])];
}

const FAILED = [
  "failed",
  "error",
  [["section_failed", { role: "solo", section: "state" }]],
] as const;

const BREAKS: Readonly<Record<string, () => unknown>> = {
  throws: () => {
    throw new Error("broken");
  },
  "throws what has no text": () => {
    throw Object.create(null);
  },
  rejects: () => Promise.reject(new Error("broken")),
  "gives a number": () => 1,
  "gives null": () => null,
  "gives a list": () => ["State."],
  "gives a promise of an object": () => Promise.resolve({ text: "State." }),
};

for (const [what, text] of Object.entries(BREAKS))
  for (const lifetime of ["step", "execution", "persistent"] as const)
    test(`fails the agent before any request to the model if a ${lifetime} section ${what}`, async () => {
      const solo = failing(text, { lifetime: lifetime });
      const fixture = newFixture();
      const result = await fixture.run(solo.role);
      expect([ending(result), solo.model.requests.length, result.usage.total.costUsd]).toEqual([
        FAILED,
        0,
        0,
      ]);
      expect(fixture.sink.ofType("section.cleared")).toEqual([]);
    });

proves(["R94"], "names the section, its role and the fault in the error", async () => {
  const result = await newFixture().run(failing(() => 1).role);
  expect(result.agents[0]?.errors.map(({ message }) => message)).toEqual([
    "Expected the section state of solo to return a string or undefined, but: it returned 1. Correct its text function.",
  ]);
});

test("abandons a section after hookTimeoutMs and ignores its late text", async () => {
  const fixture = newFixture({ hookTimeoutMs: 100 });
  const late = latch();
  const signals: AbortSignal[] = [];
  const solo = soloist([says("never")], {
    sections: [
      {
        name: "state",
        lifetime: "step",
        text: async ({ signal }) => {
          signals.push(signal);
          await late.opened;
          return "Late.";
        },
      },
    ],
  });
  const run = fixture.start(solo.role);
  await flushEventLoop();
  fixture.clock.advance(100);
  const result = await fixture.outcome(run);
  late.open();
  await flushEventLoop();
  expect([ending(result), signals.map(({ aborted }) => aborted)]).toEqual([FAILED, [true]]);
});

test("ends the agent as cancelled, not as failed, if it is cancelled while a section is created", async () => {
  const fixture = newFixture({ graceMs: 50 });
  const solo = soloist([says("never")], {
    sections: [
      {
        name: "state",
        lifetime: "step",
        text: ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(new Error("told to end")));
          }),
      },
    ],
  });
  const run = fixture.start(solo.role);
  await flushEventLoop();
  void run.cancel("Enough.");
  const result = await fixture.outcome(run);
  expect([result.status, result.agents[0]?.errors, solo.model.requests.length]).toEqual([
    "cancelled",
    [],
    0,
  ]);
});

test("reports the first in order of several failing sections, which run concurrently", async () => {
  const order: string[] = [];
  const both = latch();
  const broken = (name: string, isFirst: boolean): RequestSection => ({
    name,
    lifetime: "step",
    text: async () => {
      order.push(name);
      if (isFirst) await both.opened;
      else both.open();
      throw new Error(name);
    },
  });
  const solo = soloist([says("never")], { sections: [broken("one", true), broken("two", false)] });
  const result = await newFixture().run(solo.role);
  expect(order).toEqual(["one", "two"]);
  expect(result.agents[0]?.errors.map(({ data }) => data)).toEqual([
    { role: "solo", section: "one" },
  ]);
});

test("preserves the first step if a section fails in the second", async () => {
  const solo = soloist([asks("work", {}), says("never")], {
    tools,
    sections: [
      {
        name: "state",
        lifetime: "step",
        text: ({ stepNumber }) => {
          if (stepNumber > 1) throw new Error("broken");
          return "State.";
        },
      },
    ],
  });
  const result = await newFixture().run(solo.role);
  expect([ending(result), result.steps.map(({ number }) => number)]).toEqual([FAILED, [1]]);
});

test("fails if a section changes the messages that it is shown", async () => {
  const solo = soloist([says("never")], {
    sections: [
      {
        name: "state",
        lifetime: "step",
        text: ({ messages }) => {
          Reflect.apply(Array.prototype.push, messages, ["More."]);
          return "State.";
        },
      },
    ],
  });
  expect(ending(await newFixture().run(solo.role))).toEqual(FAILED);
});

test("creates no section for an agent that a condition has stopped", async () => {
  let made = 0;
  const solo = soloist([], {
    stopWhen: [() => ({ code: "enough", message: "Enough.", data: {} })],
    sections: [{ name: "state", lifetime: "step", text: () => `${(made += 1)}` }],
  });
  expect([(await newFixture().run(solo.role)).status, made]).toEqual(["stopped", 0]);
});

test("does not send a request that a section makes too long for the budget", async () => {
  const solo = soloist(
    [],
    { sections: [{ name: "state", lifetime: "step", text: "word ".repeat(3_000) }] },
    { countTokens: null },
  );
  const result = await newFixture().run(solo.role, { budget: { inputTokens: 1_000 } });
  expect([result.reason.code, solo.model.requests.length]).toEqual(["token_limit", 0]);
});
