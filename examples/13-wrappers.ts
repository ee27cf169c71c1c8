// Time limits, retries, rate limits and approvals around any tool. The outer wrapper bounds the
// inner one.

import assert from "node:assert/strict";

import { z } from "zod";

import {
  combineTools,
  defineAgent,
  defineTool,
  Orchestrator,
  prefixTools,
  rateLimit,
  withRateLimit,
  withRetries,
  withTimeout,
} from "espalier";
import { says, ScriptedModel } from "espalier/testing";

let attempts = 0;
const fetchPage = defineTool({
  name: "fetch",
  description: "Fetches a page.",
  inputSchema: z.object({ url: z.url() }),
  execute: ({ url }) => {
    attempts += 1;
    if (attempts === 1) throw new Error("503"); // the second attempt succeeds, and the model never sees the first
    return `The text of ${url}.`;
  },
});

// Each attempt has 2 s. All three attempts together have 10 s.
const attempt = withTimeout(fetchPage, { timeoutMs: 2_000 });
const retried = withRetries(attempt, { maxAttempts: 3, initialDelayMs: 10 });
const bounded = withTimeout(retried, { timeoutMs: 10_000 });
// At most 20 calls per second, by all agents of a run together.
const limit = rateLimit({ maxCalls: 20, windowMs: 1_000 });
const web = prefixTools([withRateLimit(bounded, limit)], "web_");

const look = defineTool({
  name: "look",
  description: "Looks around.",
  inputSchema: z.object({}),
  execute: () => "Nothing.",
});

const reader = defineAgent({
  name: "reader",
  instructions: "Read.",
  model: new ScriptedModel([
    {
      calls: [
        { toolName: "web_fetch", arguments: { url: "https://example.com" } },
        { toolName: "look", arguments: {} },
      ],
    },
    says("Read."),
  ]),
  tools: combineTools(web, [look]), // a name that is there twice is refused here
});
const events: string[] = [];
const run = new Orchestrator().start(reader, "Read a page.");
for await (const event of run.events()) {
  if (event.type === "tool.retried")
    events.push(`${event.toolName}: attempt ${event.attempt} failed`);
  if (event.type === "tool.ended") events.push(`${event.toolName}: ${event.outcome}`);
}
console.log(events.join("\n"));
assert.deepEqual(events.toSorted(), [
  "look: succeeded",
  "web_fetch: attempt 1 failed",
  "web_fetch: succeeded",
]);
