// Goal: a handler that reads or changes a field which its hook point does not have does not compile
// (R80).
// Method: handlers with one fault each, which the compiler must report, and handlers of every
// allowed shape.

import { expectTypeOf, test } from "vitest";

import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import type { AllowedPatch, HookContext } from "../../src/hooks/hook-points.ts";
import type { ModelReply } from "../../src/model/model.ts";
import type { ExecutionId } from "../../src/protocol/ids.ts";

test("a field that does not exist at a point cannot be read there", () => {
  // @ts-expect-error -- there is no outcome before a call
  transform("beforeTool", (input) => void input.outcome);
  // @ts-expect-error -- nor a text
  transform("beforeTool", ({ text }) => void text);
  // @ts-expect-error -- a run that has not begun has no messages
  transform("userInput", (input) => void input.messages);
  // @ts-expect-error -- a request is of no single tool
  transform("beforeModel", (input) => void input.toolName);
  // @ts-expect-error -- a child that has not started has no steps
  transform("subagentStart", (input) => void input.steps);
  // @ts-expect-error -- the temperature can be set, not read
  transform("beforeModel", (input) => void input.temperature);
});

test("the common handlers compile as they are written", () => {
  transform("beforeModel", ({ messages }) => ({
    messages: [...messages, { role: "user", text: "Hello.", origin: "injected" }],
  }));
  transform("beforeModel", async () => ({ instructions: await Promise.resolve("Be brief.") }));
  // @ts-expect-error -- a field of another point
  transform("beforeModel", async () => ({ deny: await Promise.resolve("No.") }));
});

test("every handler knows the agent that it serves", () => {
  transform(
    "userInput",
    (_input, context) => void expectTypeOf(context).toEqualTypeOf<HookContext>(),
  );
  transform("stop", (_input, context) => {
    expectTypeOf(context).toEqualTypeOf<HookContext>();
    expectTypeOf(context.executionId).toEqualTypeOf<ExecutionId>();
  });
});

test("a field that a point does not allow cannot be returned there", () => {
  // @ts-expect-error -- a call that has ended cannot be denied
  transform("afterTool", () => ({ deny: "No." }));
  // @ts-expect-error -- not next to an allowed field either
  transform("afterTool", () => ({ text: "", deny: "No." }));
  // @ts-expect-error -- nor later
  transform("afterTool", async () => ({ text: "", arguments: {} }));
  // @ts-expect-error -- a guard cannot make an agent continue
  transform("beforeTool", () => ({ continueWith: "More." }));
  // @ts-expect-error -- a stop cannot be refused
  transform("stop", () => ({ refuse: "No." }));
  // @ts-expect-error -- nothing of that name anywhere
  transform("userInput", () => ({ tsak: "Other." }));
  // @ts-expect-error -- a wrong value
  transform("beforeCompaction", () => ({ keepMessages: "3" }));
  // @ts-expect-error -- null is not nothing
  transform("stop", () => null);
  expectTypeOf<{ readonly deny: string }>().not.toExtend<AllowedPatch<"stop">>();
});

test("values that a hook receives are read-only", () => {
  transform("beforeModel", (input) => {
    // @ts-expect-error -- read-only
    input.instructions = "Other.";
    // @ts-expect-error -- read-only
    void input.messages.push;
  });
});

test("a handler may have any number of arguments, be asynchronous, and return nothing", () => {
  const hooks = [
    transform("beforeTool", () => undefined),
    transform("beforeTool", (input) => ({ arguments: [input.arguments] })),
    transform("beforeTool", (input, context) => {
      if (context.depth > 0) return { deny: input.toolName };
      return undefined;
    }),
    transform("beforeTool", async () => {}),
    transform("afterTool", async ({ text }) => ({ text, metadata: { a: 1 } })),
    transform("beforeModel", ({ messages }) => ({ messages: messages.slice(1) })),
    transform("stop", ({ isActive }) => (isActive ? {} : { continueWith: "More." })),
  ];
  expectTypeOf(hooks).toEqualTypeOf<Hook[]>();
});

test("a hook accepts only the options of its kind and point", () => {
  transform("afterTool", () => undefined, { tools: ["search"], priority: 1, strict: false });
  wrapToolCall((_call, next) => next(), { tools: ["search"], name: "timed" });
  // @ts-expect-error -- a stop concerns no tool
  transform("stop", () => undefined, { tools: ["search"] });
  // @ts-expect-error -- neither does a model call
  wrapModelCall((_call, next) => next(), { tools: ["search"] });
});

test("observers and processors return nothing, and a wrap of a model call returns a reply", () => {
  observe(["run.started", "agent.started"], (event) => {
    expectTypeOf(event.type).toEqualTypeOf<"run.started" | "agent.started">();
    expectTypeOf(event.task).toEqualTypeOf<string>();
  });
  // @ts-expect-error -- an event of another type
  observe("run.ended", (event) => void event.task);
  // @ts-expect-error -- no such event
  observe("run.begun", () => undefined);
  // @ts-expect-error -- observers cannot stop anything
  observe("run.ended", (_event, context) => void context.requestStop);
  wrapModelCall(async ({ request }, next) => {
    expectTypeOf(request.maxOutputTokens).toEqualTypeOf<number>();
    const reply = await next();
    expectTypeOf(reply).toEqualTypeOf<ModelReply>();
    return reply;
  });
  // @ts-expect-error -- text is no reply
  wrapModelCall(() => Promise.resolve("text"));
  processStep((step, { stepNumber }) => {
    expectTypeOf(step.number).toEqualTypeOf<number>();
    expectTypeOf(stepNumber).toEqualTypeOf<number>();
  });
});
