// Goal: inputs and outputs of tools are typed: contexts are read-only, arguments have the type of
// their schema.
// Method: assignments that must not compile, and the types that inference finds.

import { expectTypeOf, test } from "vitest";
import { z } from "zod";

import {
  defineDelegation,
  defineTool,
  type AgentDefinition,
  type DelegationContext,
  type DelegationTool,
  type FunctionTool,
  type SpawnOutcome,
  type ToolContext,
  type ToolDefaults,
} from "../../src/index.ts";
import type { ExternalTool, ToolSettings } from "../../src/extend.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";

function write(context: ToolContext & DelegationContext, other: ToolContext): void {
  // @ts-expect-error -- read-only
  context.agentId = other.agentId;
  // @ts-expect-error -- read-only
  context.stepNumber = 2;
  // @ts-expect-error -- read-only
  context.callId = other.callId;
  // @ts-expect-error -- read-only
  context.retryCount = 0;
  // @ts-expect-error -- read-only
  context.maxRetries = 9;
  // @ts-expect-error -- read-only
  context.metadata = {};
  // @ts-expect-error -- read-only
  context.messages = [];
  // @ts-expect-error -- read-only within, too
  context.messages[0] = { role: "user", text: "x" };
  // @ts-expect-error -- read-only within, too
  context.metadata["key"] = 1;
  // @ts-expect-error -- read-only
  context.signal = new AbortController().signal;
}

test("all fields of a context are read-only", () => {
  expectTypeOf(write).returns.toEqualTypeOf<void>();
  expectTypeOf<ToolContext["messages"]>().not.toHaveProperty("push");
});

test("arguments have the type of their schema in `execute` and in `needsApproval`", () => {
  const tool = defineTool({
    name: "work",
    description: "Works.",
    inputSchema: z.object({ a: z.string(), b: z.number().default(1) }),
    needsApproval: (input) => {
      expectTypeOf(input).toEqualTypeOf<{ a: string; b: number }>();
      return false;
    },
    execute: (input, context) => {
      expectTypeOf(input).toEqualTypeOf<{ a: string; b: number }>();
      expectTypeOf(context).toEqualTypeOf<ToolContext>();
      // @ts-expect-error -- a function tool starts no subagents
      void context.spawn;
    },
  });
  expectTypeOf(tool).toEqualTypeOf<FunctionTool>();
});

test("a tool without `execute` is external and has no setting but `maxRetries`", () => {
  const input = jsonSchema({ type: "object" });
  expectTypeOf(
    defineTool({ name: "mail", description: "Mails.", inputSchema: input, maxRetries: 1 }),
  ).toEqualTypeOf<ExternalTool>();
  const mail = { name: "mail", description: "Mails.", inputSchema: input };
  // @ts-expect-error -- what executes it decides about time
  void (() => defineTool({ ...mail, timeoutMs: 1 }));
});

test("a delegation returns only the outcome of a spawn", () => {
  const input = z.object({ topic: z.string() });
  const tool = defineDelegation({
    name: "delegate",
    description: "Delegates.",
    inputSchema: input,
    execute: ({ topic }, { spawn }) => {
      expectTypeOf(spawn).returns.toEqualTypeOf<Promise<SpawnOutcome>>();
      return spawn({ role: "child", task: topic });
    },
  });
  expectTypeOf(tool).toEqualTypeOf<DelegationTool>();
  const named = { name: "d", description: "Delegates.", inputSchema: input };
  // @ts-expect-error -- a text is no outcome
  void (() => defineDelegation({ ...named, execute: () => "done" }));
});

test("the tool defaults of a role are the settings of a tool and `needsApproval`", () => {
  expectTypeOf<keyof ToolDefaults>().toEqualTypeOf<keyof ToolSettings | "needsApproval">();
  expectTypeOf<AgentDefinition["toolDefaults"]>().toEqualTypeOf<ToolDefaults | undefined>();
  expectTypeOf<ToolSettings["longResultPolicy"]>().toEqualTypeOf<
    "truncate" | "summarize" | undefined
  >();
});
