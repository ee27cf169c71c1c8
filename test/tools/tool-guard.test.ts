// Goal: an invalid guard is refused where it is defined, with the field, the expectation and the
// value.
// Method: invalid arguments of every kind, passed without types.

import { describe, expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { selectGuards, assignGuardNames, toolGuard } from "../../src/tools/tool-guard.ts";
import { ALLOW, allows } from "../support/guard-stories.ts";

const check = (): typeof ALLOW => ALLOW;

/** Returns the code and the field of the thrown error. */
function faultOf(work: () => unknown): readonly unknown[] {
  try {
    work();
  } catch (error) {
    if (EspalierError.is(error)) return [error.code, error.data["field"]];
    throw error;
  }
  return expect.fail("nothing was thrown");
}

/** Calls `toolGuard` without type checks. */
function untyped(...given: readonly unknown[]): unknown {
  return Reflect.apply(toolGuard, undefined, given);
}

describe("toolGuard", () => {
  test("accepts a function and known options only", () => {
    const faults = [
      [undefined],
      [{ type: "allow" }],
      [check, { nmae: "x" }],
      [check, null],
      [check, []],
      [check, { name: "" }],
      [check, { name: 7 }],
      [check, { tools: "write" }],
      [check, { tools: [] }],
      [check, { tools: ["write", ""] }],
      [check, { tools: [toolGuard] }],
    ].map((given) => faultOf(() => untyped(...given)));
    expect(faults).toEqual([
      ["invalid_argument", "toolGuard.check"],
      ["invalid_argument", "toolGuard.check"],
      ["invalid_argument", "toolGuard.options.nmae"],
      ["invalid_argument", "toolGuard.options"],
      ["invalid_argument", "toolGuard.options"],
      ["invalid_argument", "toolGuard.options.name"],
      ["invalid_argument", "toolGuard.options.name"],
      ["invalid_argument", "toolGuard.options.tools"],
      ["invalid_argument", "toolGuard.options.tools"],
      ["invalid_argument", "toolGuard.options.tools[1]"],
      ["invalid_argument", "toolGuard.options.tools[0]"],
    ]);
  });

  test("copies and freezes its options", () => {
    const tools = ["write"];
    const guard = toolGuard(check, { tools });
    tools.push("read");
    expect([guard.tools, Object.isFrozen(guard), Object.isFrozen(guard.tools)]).toEqual([
      ["write"],
      true,
      true,
    ]);
  });

  test("takes its name from its options or its function, or gets one by its place", () => {
    const named = toolGuard(check, { name: "own" });
    const nameless = toolGuard(
      (
        () => () =>
          ALLOW
      )(),
    );
    expect([named.name, toolGuard(check).name, nameless.name]).toEqual(["own", "check", undefined]);
    expect(assignGuardNames("lead", [nameless, named, nameless]).map(({ name }) => name)).toEqual([
      "lead.guard#1",
      "own",
      "lead.guard#3",
    ]);
  });

  test("accepts a function whose name is not text", () => {
    const odd = Object.defineProperty(() => ALLOW, "name", { value: 7 });
    expect(toolGuard(odd).name).toBe(undefined);
  });
});

function house(guards: unknown): unknown {
  return Reflect.construct(Orchestrator, [{ guards }]);
}

describe("a list of guards", () => {
  const model = new ScriptedModel([]);
  const agent = (guards: unknown): unknown =>
    Reflect.apply(defineAgent, undefined, [{ name: "solo", instructions: "Work.", model, guards }]);

  test("accepts only guards made with toolGuard", () => {
    const copy = { ...allows() };
    const lists = [allows(), "guard", null, [check], [allows(), copy], [undefined]];
    const code = "invalid_argument";
    expect(lists.map((guards) => faultOf(() => agent(guards)))).toEqual([
      [code, "solo.guards"],
      [code, "solo.guards"],
      [code, "solo.guards"],
      [code, "solo.guards[0]"],
      [code, "solo.guards[1]"],
      [code, "solo.guards[0]"],
    ]);
    expect(lists.map((guards) => faultOf(() => house(guards)))).toEqual([
      [code, "guards"],
      [code, "guards"],
      [code, "guards"],
      [code, "guards[0]"],
      [code, "guards[1]"],
      [code, "guards[0]"],
    ]);
  });

  test("is copied, so that guards added later have no effect", () => {
    const guards = [allows()];
    const role = defineAgent({ name: "solo", instructions: "Work.", model, guards });
    guards.push(allows("later"));
    expect([role.guards.length, Object.isFrozen(role.guards)]).toEqual([1, true]);
  });

  test("applies each guard once per call, under the name of its first place", () => {
    const shared = toolGuard(
      (
        () => () =>
          ALLOW
      )(),
      { tools: ["write"] },
    );
    const list = [
      ...assignGuardNames("root", [shared]),
      ...assignGuardNames("child", [allows(), shared]),
    ];
    expect(selectGuards(list, "write").map(({ name }) => name)).toEqual(["root.guard#1", "allow"]);
    expect(selectGuards(list, "read").map(({ name }) => name)).toEqual(["allow"]);
    expect(selectGuards(list, "Write").map(({ name }) => name)).toEqual(["allow"]);
  });
});
