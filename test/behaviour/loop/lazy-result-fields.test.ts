// Goal: lazily computed fields of a result exist however it is read.
// Method: a result, read directly and through wrappers and copies.

import { inspect } from "node:util";

import { expect, test } from "vitest";

import { asks, says } from "../../../src/testing/scripted-model.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

test("a result has the same values directly, behind a proxy, copied and cloned", async () => {
  const { role } = soloist([asks("look", {}), says("Done.")], { tools: [spyTool("look")] });
  const result = await newFixture().run(role);
  const { messages, newMessages, agents } = result;
  expect([messages.length, newMessages.length, agents.length]).toEqual([5, 4, 1]);
  expect(result.messages).toBe(messages);
  const others = [
    new Proxy(result, {}),
    Object.defineProperties({ ...result }, Object.getOwnPropertyDescriptors(result)),
    { ...result },
    structuredClone({ ...result }),
    structuredClone(result),
  ];
  for (const other of others)
    expect([other.messages, other.newMessages, other.agents]).toEqual([
      messages,
      newMessages,
      agents,
    ]);
  expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
  expect(JSON.parse(JSON.stringify(result))).toMatchObject({
    text: "Done.",
    agents: [{ role: role.name }],
  });
});

test("a printed result shows its values", async () => {
  const { role } = soloist([asks("look", {}), says("Done.")], { tools: [spyTool("look")] });
  const printed = inspect(await newFixture().run(role), { depth: 3 });
  expect(printed).not.toContain("[Getter]");
  expect(printed).toContain("toolsUsed: { look: 1 }");
});
