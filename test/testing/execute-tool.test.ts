// Goal: a tool is tested by one call, as an agent would make it.
// Method: tools that succeed, fail, ask and read their context.

import { expect } from "vitest";
import { z } from "zod";

import { defineTool, deny, toolResult } from "../../src/index.ts";
import { executeTool } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";

const price = defineTool({
  name: "price",
  description: "Finds a price.",
  inputSchema: z.object({ thing: z.string(), count: z.int().default(1) }),
  execute: ({ thing, count }) => {
    if (thing === "air") throw new Error("Air is free.");
    return toolResult({ text: `${12 * count} euros`, structured: { euros: 12 * count } });
  },
});

proves(["D581"], "returns the text for the model and the structured result", async () => {
  expect(await executeTool(price, { thing: "pears" })).toMatchObject({
    arguments: { thing: "pears", count: 1 },
    type: "succeeded",
    text: "12 euros",
    structured: { euros: 12 },
  });
});

proves(["D581"], "returns tool errors and invalid arguments as the model reads them", async () => {
  const failed = await executeTool(price, { thing: "air" });
  expect([failed.type, failed.errorCode]).toEqual(["failed", "tool_error"]);
  expect(failed.text).toContain("Air is free.");
  const misfit = await executeTool(price, { count: 2 });
  expect([misfit.type, misfit.errorCode]).toEqual(["retry", "invalid_arguments"]);
  expect(misfit.text).toContain("thing: expected text");
});

proves(["D581"], "passes the context to the tool and calls the approver", async () => {
  const whoAmI = defineTool({
    name: "whoAmI",
    description: "Says who asks.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: (_input, { context, metadata }: { context: { userId: string }; metadata: object }) =>
      `${context.userId} ${JSON.stringify(metadata)}`,
  });
  const context = { userId: "u1" };
  const { text } = await executeTool(whoAmI, {}, { context, metadata: { a: 1 } });
  expect(text).toBe('u1 {"a":1}');
  const approver = (question: Parameters<typeof deny>[0]) => deny(question, "Not now.");
  expect(await executeTool(whoAmI, {}, { context, approver })).toMatchObject({ type: "refused" });
  const silent = executeTool(whoAmI, {}, { context, approver: () => undefined });
  await expect(silent).rejects.toMatchObject({ code: "invalid_state" });
  // @ts-expect-error -- the tool needs a context
  await executeTool(whoAmI, {});
});
