// Goal: a hook is validated and frozen when it is created, and no other value is accepted as a
// hook.
// Method: call constructors with valid arguments, and with one fault at a time.

import { expect, test } from "vitest";

import {
  checkHooks,
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import { compileHooks } from "../../src/hooks/hook-set.ts";
import { thrownBy } from "../support/thrown.ts";

const nothing = (): void => undefined;
/** Calls a constructor as JavaScript would permit. */
function make(
  constructor: (...given: never[]) => Hook,
  ...given: readonly unknown[]
): () => unknown {
  return () => {
    const made: unknown = Reflect.apply(constructor, undefined, given);
    return made;
  };
}

test("returns a frozen, valid hook from every constructor", () => {
  const hooks = [
    observe("run.ended", nothing),
    observe(["step.started", "step.completed"], nothing),
    transform("stop", nothing),
    wrapModelCall((_call, next) => next()),
    wrapToolCall((_call, next) => next()),
    processStep(nothing),
  ];
  expect(hooks.every(Object.isFrozen)).toBe(true);
  expect(() => checkHooks("agent.hooks", hooks)).not.toThrow();
  expect(() => checkHooks("agent.hooks", [hooks[0], hooks[0]])).not.toThrow();
});

test("refuses values that no constructor created, even a copy of a hook", () => {
  const copy = { ...transform("stop", nothing) };
  for (const [index, other] of [copy, {}, nothing, null, undefined, "stop"].entries()) {
    const list = [transform("stop", nothing), other];
    expect([index, thrownBy(() => checkHooks("agent.hooks", list)).data["field"]]).toEqual([
      index,
      "agent.hooks[1]",
    ]);
  }
  for (const list of [null, undefined, {}, transform("stop", nothing)]) {
    const { code, data } = thrownBy(() => checkHooks("agent.hooks", list));
    expect([code, data["field"]]).toEqual(["invalid_argument", "agent.hooks"]);
  }
});

const BAD: readonly (readonly [string, () => unknown, string, string])[] = [
  ["no event type", make(observe, [], nothing), "invalid_argument", "observe.types"],
  ["a wrong type", make(observe, "run.begun", nothing), "invalid_argument", "observe.types"],
  [
    "one wrong type",
    make(observe, ["run.ended", "x"], nothing),
    "invalid_argument",
    "observe.types",
  ],
  ["a type of Object", make(observe, "toString", nothing), "invalid_argument", "observe.types"],
  ["no type at all", make(observe, undefined, nothing), "invalid_argument", "observe.types"],
  ["no listener", make(observe, "run.ended"), "invalid_argument", "observe.listener"],
  ["a wrong point", make(transform, "onStop", nothing), "invalid_argument", "transform.point"],
  [
    "a point of Object",
    make(transform, "__proto__", nothing),
    "invalid_argument",
    "transform.point",
  ],
  ["no handler", make(transform, "stop", null), "invalid_argument", "stop.handler"],
  ["no model wrap", make(wrapModelCall, {}), "invalid_argument", "wrapModelCall.wrap"],
  ["no tool wrap", make(wrapToolCall, "wrap"), "invalid_argument", "wrapToolCall.wrap"],
  ["no processor", make(processStep, [nothing]), "invalid_argument", "processStep.process"],
  [
    "an empty name",
    make(processStep, nothing, { name: " " }),
    "invalid_argument",
    "processStep.options.name",
  ],
  [
    "a name that is no text",
    make(transform, "stop", nothing, { name: 5 }),
    "invalid_argument",
    "stop.options.name",
  ],
  [
    "a priority without end",
    make(transform, "stop", nothing, { priority: Infinity }),
    "invalid_argument",
    "stop.options.priority",
  ],
  [
    "a priority in words",
    make(observe, "run.ended", nothing, { priority: "high" }),
    "invalid_argument",
    "observe.options.priority",
  ],
  [
    "a strictness in words",
    make(transform, "stop", nothing, { strict: "no" }),
    "invalid_argument",
    "stop.options.strict",
  ],
  [
    "tools at a point without",
    make(transform, "stop", nothing, { tools: ["a"] }),
    "invalid_argument",
    "stop.options.tools",
  ],
  [
    "tools of a model call",
    make(wrapModelCall, nothing, { tools: ["a"] }),
    "invalid_argument",
    "wrapModelCall.options.tools",
  ],
  [
    "one tool without a list",
    make(transform, "beforeTool", nothing, { tools: "a" }),
    "invalid_argument",
    "beforeTool.options.tools",
  ],
  [
    "no tools",
    make(wrapToolCall, nothing, { tools: [] }),
    "invalid_argument",
    "wrapToolCall.options.tools",
  ],
  [
    "a tool without a name",
    make(transform, "afterTool", nothing, { tools: ["a", ""] }),
    "invalid_argument",
    "afterTool.options.tools[1]",
  ],
  [
    "a misspelt option",
    make(transform, "stop", nothing, { prioritiy: 1 }),
    "invalid_argument",
    "stop.options.prioritiy",
  ],
  [
    "a strict wrap",
    make(wrapToolCall, nothing, { strict: true }),
    "invalid_argument",
    "wrapToolCall.options.strict",
  ],
  [
    "options that are none",
    make(processStep, nothing, null),
    "invalid_argument",
    "processStep.options",
  ],
];

for (const [what, attempt, code, field] of BAD) {
  test(`refuses ${what} at once and names the field`, () => {
    const thrown = thrownBy(attempt);
    expect([thrown.code, thrown.data["field"]]).toEqual([code, field]);
    expect(thrown.message.startsWith(`Expected ${field} to be `)).toBe(true);
  });
}

test("ignores later changes of the lists that were passed to a constructor", () => {
  const tools = ["a"];
  const hooks = compileHooks([transform("beforeTool", nothing, { tools })]);
  tools.push("b");
  expect([hooks.chain("beforeTool", "a").length, hooks.chain("beforeTool", "b").length]).toEqual([
    1, 0,
  ]);
});
