// Goal: parts of a combination are called once per check, and fired parts of allOf stay fired as
// long as the execution lasts.
// Method: hand-written step records; a simulated execution that keeps the fired parts from check to
// check.

import { expect, test } from "vitest";

import {
  allOf,
  anyOf,
  hasFinishReason,
  not,
  hasToolCall,
  type StopCondition,
  type StopContext,
} from "../../src/policies/stop-conditions.ts";
import { proves } from "../harness/proves.ts";
import {
  ALWAYS,
  checked,
  codesAt,
  factsOf,
  firingAfter,
  late,
  NEVER,
  NO,
  reasonOf,
  stepCalling,
  stepEnding,
} from "../support/stop-facts.ts";

proves(
  ["R60"],
  "counts a part that fired in an earlier step, with its reason of that step",
  async () => {
    const both = allOf(hasToolCall("save"), hasFinishReason("length"));
    const steps = [stepCalling(1, "save"), stepCalling(2, "search"), stepEnding(3, "length")];
    expect(await checked(both, ...steps)).toMatchObject([
      [],
      [],
      [],
      [
        { code: "tool_called", data: { toolName: "save", step: 1 } },
        { code: "finish_reason", data: { finishReason: "length", step: 3 } },
      ],
    ]);
    expect((await checked(both, ...steps.slice(1))).flat()).toEqual([]);
  },
);

proves(
  ["R60"],
  "fires again in later checks once every part has fired, with the latest reason of each",
  async () => {
    const both = allOf(hasToolCall("save"), hasToolCall("load"));
    const steps = [stepCalling(1, "save", "load"), stepCalling(2, "save"), stepCalling(3)];
    const [, ...answers] = await checked(both, ...steps);
    expect(answers.map((reasons) => reasons.map(({ data }) => data))).toEqual(
      [
        [1, 1],
        [2, 1],
        [2, 1],
      ].map(([save, load]) => [
        { toolName: "save", step: save },
        { toolName: "load", step: load },
      ]),
    );
  },
);

proves(["R60"], "keeps a part fired that fired before the first step", async () => {
  const both = allOf(firingAfter("opening", 0), late(firingAfter("closing", 2)));
  expect(await codesAt(both, stepCalling(1), stepCalling(2))).toEqual([
    [],
    [],
    ["opening", "closing"],
  ]);
});

test("keeps fired parts in nested and negated combinations", async () => {
  const saved = allOf(firingAfter("one", 1), late(firingAfter("two", 2)));
  const deep = allOf(anyOf(saved, NEVER), firingAfter("three", 3));
  const steps = [stepCalling(1), stepCalling(2), stepCalling(3)];
  expect(await codesAt(deep, ...steps)).toEqual([[], [], [], ["one", "two", "three"]]);
  const negated = not(deep, NO);
  expect(await codesAt(negated, ...steps)).toEqual([[], ["no"], ["no"], []]);
  expect(await codesAt(not(negated, reasonOf("yes")), ...steps)).toEqual([[], [], [], ["yes"]]);
  expect(await codesAt(allOf(not(negated, reasonOf("yes")), negated), ...steps)).toEqual([
    [],
    [],
    [],
    ["yes", "no"],
  ]);
});

proves(["R60"], "fires for the same part or combination at each of its places", async () => {
  const one = firingAfter("one", 1);
  const both = allOf(one, firingAfter("two", 2));
  const steps = [stepCalling(1), stepCalling(2)];
  expect(await codesAt(anyOf(both, both, allOf(one, one)), ...steps)).toEqual([
    [],
    ["one", "one"],
    ["one", "two", "one", "two", "one", "one"],
  ]);
});

proves(
  ["S7.19", "R60"],
  "calls each part once per check, even if it has fired, answers late, or follows one that never fires",
  async () => {
    const asked: string[] = [];
    const noting = (name: string, condition: StopCondition): StopCondition => {
      return (facts) => {
        asked.push(`${name} ${facts.steps.length}`);
        return condition(facts);
      };
    };
    const [early, never] = [noting("early", firingAfter("early", 0)), noting("never", NEVER)];
    const [slow, last] = [noting("slow", late(firingAfter("slow", 1))), noting("last", ALWAYS)];
    const both = allOf(early, anyOf(never, slow), not(allOf(never, slow), NO), last);
    expect(await codesAt(both, stepCalling(1), stepCalling(2))).toEqual([
      [],
      ["early", "slow", "no", "always"],
      ["early", "slow", "no", "always"],
    ]);
    const names = ["early", "never", "slow", "never", "slow", "last"];
    expect(asked).toEqual([0, 1, 2].flatMap((count) => names.map((name) => `${name} ${count}`)));
  },
);

test("knows no earlier check if it is called directly, and calls each part once", () => {
  const seen: StopContext[] = [];
  const spy: StopCondition = (facts) => void seen.push(facts);
  const steps = [stepCalling(1), stepCalling(2), stepCalling(3)];
  expect(allOf(spy, ALWAYS, firingAfter("one", 1))(factsOf(...steps))).toBeUndefined();
  expect(allOf(ALWAYS, firingAfter("three", 3))(factsOf(...steps))).toHaveLength(2);
  expect(seen).toEqual([factsOf(...steps)]);
});

proves(
  ["R63"],
  "keeps two executions that share one condition apart, in sequence and concurrently",
  async () => {
    const shared = anyOf(
      allOf(hasToolCall("save"), late(hasFinishReason("length"))),
      not(late(firingAfter("early", 0, 1)), NO),
    );
    const left = [stepCalling(1, "save"), stepEnding(2, "length")];
    const right = [stepEnding(1, "length"), stepCalling(2, "search")];
    const ofLeft = [[], [], ["tool_called", "finish_reason", "no"]];
    const ofRight = [[], [], ["no"]];
    expect(await codesAt(shared, ...left)).toEqual(ofLeft);
    expect(await codesAt(shared, ...right)).toEqual(ofRight);
    expect(
      await Promise.all([right, left, right].map((steps) => codesAt(shared, ...steps))),
    ).toEqual([ofRight, ofLeft, ofRight]);
  },
);
