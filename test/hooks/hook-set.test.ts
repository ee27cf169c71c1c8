// Goal: hooks are found by their point, in one order, under stable names, and without cost if there
// are none.
// Method: sets compiled from lists in many orders.

import type { HookContext } from "../../src/hooks/hook-points.ts";
import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import { compileHooks, type HookSet } from "../../src/hooks/hook-set.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { createPriceLookup } from "../../src/model/prices.ts";
import { RoleRegistry } from "../../src/orchestrator/tree/role-registry.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { POINTS, run } from "../support/hook-chains.ts";

const nothing = (): void => undefined;
const redact = (): void => undefined;
const hookOf = (name: string, priority = 0): Hook => transform("stop", nothing, { name, priority });
const namesOf = (list: readonly { readonly name: string }[]): readonly string[] =>
  list.map(({ name }) => name);

proves(["R83"], "orders hooks by priority, then registration, in each of 100 compilations", () => {
  const hooks = [0, 5, 0, -1, 5, 2.5, 0].map((priority, index) =>
    transform("beforeModel", nothing, { priority, name: `h${index}` }),
  );
  const orders = Array.from({ length: 100 }, () =>
    namesOf(compileHooks(hooks).chain("beforeModel")).join(" "),
  );
  expect([...new Set(orders)]).toEqual(["h1 h4 h5 h0 h2 h6 h3"]);
});

proves(["R83"], "runs hooks of any priorities in the order of a stable sort", async () => {
  const priorities = fc.array(fc.integer({ min: -2, max: 2 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(priorities, async (given) => {
      const called: number[] = [];
      const hooks = given.map((priority, index) =>
        transform("stop", () => void called.push(index), { priority }),
      );
      await run("stop", hooks);
      const expected = given
        .map((priority, index) => ({ priority, index }))
        .toSorted((left, right) => right.priority - left.priority || left.index - right.index);
      expect(called).toEqual(expected.map(({ index }) => index));
    }),
    { numRuns: 100 },
  );
});

proves(["R84"], "calls a hook only at its own point, with one or two parameters", async () => {
  const called: string[] = [];
  const hooks = POINTS.flatMap((point) => [
    transform(point, (input: unknown) => void called.push(`${point} ${typeof input}`)),
    transform(
      point,
      (_input: unknown, context: HookContext) => void called.push(`${point} ${context.hookName}`),
    ),
    transform(point, () => void called.push(`${point} none`)),
  ]);
  hooks.push(
    observe("run.ended", () => void called.push("observe")),
    processStep(() => void called.push("processStep")),
  );
  for (const point of POINTS) {
    called.length = 0;
    await run(point, hooks);
    expect(called).toEqual([`${point} object`, `${point} ${point}#2`, `${point} none`]);
  }
});

proves(["R85"], "does not call a hook that is limited to one tool for another tool", async () => {
  const called: string[] = [];
  const hooks = [
    transform("beforeTool", () => void called.push("search"), { tools: ["search"] }),
    transform("beforeTool", () => void called.push("write"), { tools: ["write", "delete"] }),
    transform("beforeTool", () => void called.push("all")),
  ];
  await run("beforeTool", hooks);
  expect(called).toEqual(["search", "all"]);
  const set = compileHooks([
    ...hooks,
    wrapToolCall((_call, next) => next(), { tools: ["delete"], name: "safe" }),
    wrapToolCall((_call, next) => next(), { name: "timed" }),
  ]);
  expect(
    ["search", "delete", "Delete", "constructor"].map((tool) => namesOf(set.toolWraps(tool))),
  ).toEqual([["timed"], ["safe", "timed"], ["timed"], ["timed"]]);
  expect(namesOf(set.chain("beforeTool"))).toEqual(["beforeTool#3"]);
});

test("finds observers by their event types", () => {
  const set = compileHooks([
    observe("run.ended", nothing, { name: "end" }),
    observe(["run.started", "run.ended"], nothing, { name: "both", priority: 1 }),
  ]);
  expect([set.observers("run.ended"), set.observers("run.started")].map(namesOf)).toEqual([
    ["both", "end"],
    ["both"],
  ]);
  expect(set.observers("step.started")).toHaveLength(0);
});

const compile = (): HookSet =>
  compileHooks([
    transform("beforeTool", redact),
    transform("beforeTool", () => undefined, { priority: 9 }),
    transform("beforeTool", redact, { name: "given" }),
    transform("beforeTool", redact.bind(undefined)),
    transform(
      "beforeTool",
      Object.defineProperty(() => undefined, "name", { value: 5 }),
    ),
    transform("afterTool", () => undefined),
    wrapModelCall((_call, next) => next()),
    wrapToolCall((_call, next) => next()),
    processStep(() => undefined),
    observe("run.ended", () => undefined),
  ]);

test("names a hook by its option, its function or its stable position", () => {
  const names = ["beforeTool#2", "redact", "given", "bound redact", "beforeTool#5"];
  const [once, twice] = [compile(), compile()];
  for (const set of [once, twice, once]) {
    expect(namesOf(set.chain("beforeTool", "search"))).toEqual(names);
    expect(namesOf(set.chain("afterTool", "search"))).toEqual(["afterTool#1"]);
    expect(namesOf(set.modelWraps)).toEqual(["wrapModelCall#1"]);
    expect(namesOf(set.toolWraps("search"))).toEqual(["wrapToolCall#1"]);
    expect(namesOf(set.processors)).toEqual(["processStep#1"]);
    expect(namesOf(set.observers("run.ended"))).toEqual(["observe#1"]);
  }
});

test("accepts two hooks of one name", () => {
  const twins = [1, 2].map(() => transform("stop", nothing, { name: "twin" }));
  expect(namesOf(compileHooks(twins).chain("stop"))).toEqual(["twin", "twin"]);
});

test("freezes a set", () => {
  const other = compileHooks([transform("beforeTool", nothing, { tools: ["write"] })]);
  expect([compileHooks([]), other].every(Object.isFrozen)).toBe(true);
});

test("runs the hooks of the orchestrator before those of the role", () => {
  const role = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([]),
    hooks: [hookOf("three"), hookOf("four", 1)],
  });
  const hooks = [hookOf("one"), hookOf("two", -1)];
  const registry = new RoleRegistry(role, {
    roles: [],
    hooks,
    priceOf: createPriceLookup(undefined),
  });
  const chain = registry.getParts(role).hooks.chain("stop");
  expect(namesOf(chain)).toEqual(["four", "one", "three", "two"]);
});
