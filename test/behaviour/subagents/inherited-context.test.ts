// Goal: the parent's context that a subagent receives is decided by the policy, at the time when
// the subagent starts.
// Method: real runs with scripted models; the first requests of children compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { formatFramedResults, type FramedResult } from "../../../src/policies/context-notes.ts";
import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message, UserMessage } from "../../../src/protocol/message.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import {
  byTask,
  calls,
  part,
  quiet,
  spawn,
  tool,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const look = tool("look", ({ callId }) => `Seen by ${callId}.`);
const fetch = tool("fetch", () => {
  throw new Error("No such host.");
});

/** Returns the messages between an agent's instructions and its task in the given request. */
function receivedBy({ model }: Part, request = 0): readonly Message[] {
  const messages = model.requests[request]?.messages ?? [];
  const task = messages.findIndex((one) => one.role === "user" && one.origin === "task");
  expect([messages[0]?.role, task]).toEqual(["system", expect.any(Number)]);
  return messages.slice(1, task);
}

function injected(text: string): UserMessage {
  return { role: "user", text, origin: "injected" };
}

function completed(childName: string, text: string): FramedResult {
  return { childName, role: childName.split("#")[0] ?? "", outcome: "completed", text };
}

/** A lead with the given policy, and a helper that answers any task. */
function pair(
  context: Partial<SubagentContextPolicy>,
  script: readonly ScriptStep[],
  replies: (task: string) => string = (task) => `Done: ${task}`,
): { readonly lead: Part; readonly helper: Part } {
  const helper = part("helper", ({ messages }) => says(replies(messages.at(-1)?.text ?? "")));
  const tools = [look, fetch];
  return {
    helper,
    lead: part("lead", script, { subagents: [helper.role], tools, contextPolicy: context }),
  };
}

const IN_SHORT = "Summaries of the results of other subagents of the agent that started you.";

describe("results of siblings", () => {
  const script = [
    calls(spawn("helper", "First.")),
    calls(spawn("helper", "Second.")),
    says("Done."),
  ];

  proves(["R150"], "are shown to the second child with `includeSiblingResults`", async () => {
    const { lead, helper } = pair({ includeSiblingResults: true }, script);
    await newFixture().run(lead.role);
    expect(receivedBy(helper)).toEqual([]);
    const frame = formatFramedResults([completed("helper#1", "Done: First.")]);
    expect(receivedBy(helper, 1)).toEqual([injected(`${IN_SHORT} ${frame}`)]);
  });

  proves(["R150"], "are not shown by default", async () => {
    const { lead, helper } = pair({}, script);
    await newFixture().run(lead.role);
    expect([receivedBy(helper), receivedBy(helper, 1)]).toEqual([[], []]);
  });

  test("are not shown to children that run in parallel", async () => {
    const both = [calls(spawn("helper", "Left."), spawn("helper", "Right.")), says("Done.")];
    const { lead, helper } = pair({ includeSiblingResults: true }, both);
    await newFixture().run(lead.role);
    expect([receivedBy(helper), receivedBy(helper, 1)]).toEqual([[], []]);
  });

  test("are truncated with a note if they are long, and shown as JSON if they are typed", async () => {
    const long = "x".repeat(5_000);
    const typed = part("typed", [calls({ toolName: "Finish", arguments: { n: 1 } })], {
      output: z.object({ n: z.number() }),
    });
    const helper = part("helper", byTask({ "Long.": [says(long)], "Last.": [says("Ok.")] }));
    const lead = part(
      "lead",
      [
        calls(spawn("helper", "Long."), spawn("typed")),
        calls(spawn("helper", "Last.")),
        says("Done."),
      ],
      { subagents: [helper.role, typed.role], contextPolicy: { includeSiblingResults: true } },
    );
    await newFixture().run(lead.role);
    const results = [
      completed("helper#1", `${"x".repeat(1_000)}\n[1000 of 5000 characters]`),
      completed("typed#1", '{"n":1}'),
    ];
    expect(receivedBy(helper, 1)).toEqual([
      injected(`${IN_SHORT} ${formatFramedResults(results)}`),
    ]);
  });

  test("show the failed outcome of a sibling", async () => {
    const broken = part("broken", [{ error: new Error("Out of order.") }]);
    const helper = part("helper", [says("Ok.")]);
    const lead = part("lead", [calls(spawn("broken")), calls(spawn("helper")), says("Done.")], {
      subagents: [broken.role, helper.role],
      contextPolicy: { includeSiblingResults: true },
    });
    await newFixture({ retryPolicy: { maxAttempts: 1 } }).run(lead.role);
    const result = { childName: "broken#1", role: "broken", outcome: "failed", text: "" } as const;
    expect(receivedBy(helper)).toEqual([injected(`${IN_SHORT} ${formatFramedResults([result])}`)]);
  });

  test("exclude subagents of another parent", async () => {
    const leaf = part("leaf", [says("Leaf.")]);
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
      contextPolicy: { includeSiblingResults: true },
    });
    const other = part("other", [says("Other.")]);
    const lead = part("lead", [calls(spawn("other")), calls(spawn("middle")), says("Done.")], {
      subagents: [other.role, middle.role],
    });
    await newFixture().run(lead.role);
    expect(receivedBy(leaf)).toEqual([]);
  });
});

describe("constraints and failed attempts of the parent", () => {
  const tries = [calls(use("fetch"), use("look")), calls(spawn("helper", "Go.")), says("Done.")];

  proves(
    ["R151"],
    "list failed tool calls in the child's context with `includeFailedAttempts`",
    async () => {
      const { lead, helper } = pair({ includeFailedAttempts: true }, tries);
      await newFixture().run(lead.role);
      expect(receivedBy(helper)).toEqual([
        injected(
          [
            "Failed calls of the agent that started you. Do not repeat them unchanged:",
            '- step 1, fetch (tool_error): "fetch failed: No such host."',
          ].join("\n"),
        ),
      ]);
    },
  );

  proves(
    ["R151"],
    "report the remaining limits at the start of the child with `includeParentConstraints`",
    async () => {
      const { lead, helper } = pair({ includeParentConstraints: true }, tries);
      await newFixture({ limits: { maxBreadthPerParent: 3 } }).run(lead.role, {
        budget: { steps: 20, totalTokens: 1_000 },
      });
      expect(receivedBy(helper)).toEqual([
        injected(
          [
            "The limits of the agent that started you also apply to you. Remaining for all its subagents together:",
            "- steps: 18",
            "- totalTokens: 970",
            "- subagents that it may start: 2",
          ].join("\n"),
        ),
      ]);
    },
  );

  test("do not count the parent's reserve as remaining", async () => {
    const helper = part("helper", [says("Ok.")]);
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      delegation: { reserve: { steps: 4 } },
      contextPolicy: { includeParentConstraints: true },
    });
    await newFixture().run(lead.role, { budget: { steps: 20 } });
    expect(receivedBy(helper)[0]?.text.split("\n").slice(1)).toEqual([
      "- steps: 15",
      "- subagents that it may start: 4",
    ]);
  });

  test("list the tools that the parent may not use", async () => {
    const leaf = part("leaf", [says("Leaf.")], { tools: [look] });
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
      tools: [look, fetch],
      contextPolicy: { includeParentConstraints: true },
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
      contextPolicy: { deniedTools: ["fetch"] },
    });
    await newFixture().run(lead.role);
    expect(receivedBy(leaf).map(({ text }) => text.split("\n").at(-1))).toEqual([
      "It may not use: fetch.",
    ]);
  });

  proves(["R127", "R151"], "are not reported by default", async () => {
    const { lead, helper } = pair({}, tries);
    await newFixture().run(lead.role, { budget: { steps: 20 } });
    expect(receivedBy(helper)).toEqual([]);
  });
});

describe("a custom message selection", () => {
  proves(
    ["R128"],
    "shows the selected messages, with calls and results paired, as in the parent's history",
    async () => {
      const handed: (readonly Message[])[] = [];
      const { lead, helper } = pair(
        {
          selectMessages: (messages) => {
            handed.push(messages);
            return messages.slice(1, 3);
          },
        },
        [calls(use("look")), calls(use("look")), calls(spawn("helper", "Go.")), says("Done.")],
      );
      await newFixture().run(lead.role);
      const callId = CallIdSchema().parse("call_1");
      const reply = {
        role: "assistant",
        text: "",
        toolCalls: [{ callId, toolName: "look", argumentsText: "{}" }],
      };
      const result = { role: "tool", callId, toolName: "look", text: "Seen by call_1." };
      expect(receivedBy(helper)).toEqual([reply, result]);
      expect(handed.map((messages) => messages.map(({ role }) => role))).toEqual([
        ["user", "assistant", "tool", "assistant", "tool"],
      ]);
      expect(unfrozenParts(handed)).toEqual(["value"]);
    },
  );

  test("refuses the subagent with the parent's path if it separates a call from its result", async () => {
    const leaf = part("leaf", [says("Leaf.")]);
    const middle = part(
      "middle",
      [calls(use("look")), calls(spawn("leaf")), says("Alone, then.")],
      {
        subagents: [leaf.role],
        tools: [look],
        contextPolicy: {
          selectMessages: (messages) => messages.filter(({ role }) => role === "assistant"),
        },
      },
    );
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.status, result.agents.length, leaf.model.requests]).toEqual([
      "completed",
      2,
      [],
    ]);
    expect(s.sink.ofType("subagent.refused").map(({ role, error }) => [role, error.code])).toEqual([
      ["leaf", "context_policy_failed"],
    ]);
    expect(result.refusalsByCode).toEqual({ context_policy_failed: 1 });
    expect(middle.model.requests.at(-1)?.messages.at(-1)?.text).toBe(
      "Not started: selecting the messages of your conversation for leaf failed. Expected contextPolicy.selectMessages of lead/middle#1 to return some of the given messages, in their order, calls with all their results, got the one at [0] without the calls or results that belong to it. Make it a synchronous pure function that selects whole exchanges, or leave it out and set messageWindowSize. Do this part yourself.",
    );
  });

  test("releases the place of the subagent if it throws", async () => {
    let count = 0;
    const { lead, helper } = pair(
      {
        selectMessages: () => {
          count += 1;
          if (count === 1) throw new Error("Not today.");
          return [];
        },
      },
      [calls(spawn("helper", "Go.")), calls(spawn("helper", "Go on.")), says("Done.")],
    );
    const s = newFixture({ limits: { maxBreadthPerParent: 1, maxTotalSubagents: 1 } });
    const result = await s.run(lead.role);
    expect(helper.model.requests).toHaveLength(1);
    expect(result.subagentsByDepth).toEqual({ 1: 1 });
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual(["lead", "lead/helper#2"]);
  });
});

describe("inherited messages", () => {
  proves(
    ["R128"],
    "contain the remaining history and the removal notice after a compaction",
    async () => {
      const reads = Array.from({ length: 6 }, () => calls(use("look")));
      const helper = part("helper", [says("Ok.")]);
      const lead = part("lead", [...reads, calls(spawn("helper", "Go.")), says("Done.")], {
        subagents: [helper.role],
        tools: [look],
        contextPolicy: { inheritMessages: true },
        compaction: { maxInputTokens: 1_000, keepMessages: 2 },
        scripted: { countTokens: ({ messages }) => messages.length * 100 },
      });
      const s = newFixture();
      await s.run(lead.role);
      expect(s.sink.ofType("conversation.compacted").length).toBeGreaterThan(0);
      const told = receivedBy(helper);
      const history = lead.model.requests.at(-2)?.messages ?? [];
      expect(told).toEqual(
        history
          .slice(1)
          .map((one) => (one.role === "user" ? { ...one, origin: "inherited" } : one)),
      );
      expect(told.filter(({ text }) => text.includes("were removed here"))).toHaveLength(1);
    },
  );

  proves(["R128"], "include the history up to the start of a queued subtask", async () => {
    const helper = part("helper", [says("Ok.")]);
    const queue = tool("queue", ({ queueSubtask }) => {
      queueSubtask({ role: "helper", task: "Go." });
      return "Queued.";
    });
    const lead = part("lead", [calls(use("queue")), says("Done.")], {
      subagents: [helper.role],
      tools: [queue, look],
      contextPolicy: { inheritMessages: true, messageWindowSize: 2 },
    });
    await newFixture().run(lead.role);
    expect(receivedBy(helper).map(({ role, text }) => [role, text])).toEqual([
      ["assistant", ""],
      ["tool", "Queued."],
    ]);
  });
});

describe("two parallel children", () => {
  proves(
    ["R128", "R129", "R130"],
    "read equal messages of the parent, and share no objects",
    async () => {
      const opened = latch();
      const waits = tool("waits", async ({ metadata }) => {
        await opened.opened;
        return JSON.stringify(metadata);
      });
      const twice = [calls(use("waits")), says("Ok.")];
      const helper = part("helper", byTask({ "Left.": twice, "Right.": twice }), {
        tools: [waits],
      });
      const lead = part(
        "lead",
        [
          calls(use("look")),
          calls(spawn("helper", "Left."), spawn("helper", "Right.")),
          says("Done."),
        ],
        {
          subagents: [helper.role],
          tools: [look],
          contextPolicy: {
            inheritMessages: true,
            metadataKeys: ["a"],
            injectedTexts: ["Hint."],
          },
        },
      );
      const s: Fixture = newFixture();
      const run = s.start(lead.role, "Do it.", { metadata: { a: { b: 1 }, c: 2 } });
      await quiet();
      const [left, right] = [receivedBy(helper), receivedBy(helper, 1)];
      expect(left).toEqual(right);
      expect(left.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user"]);
      opened.open();
      const result = await s.outcome(run);
      const [, one, other] = result.agents;
      expect([one?.metadata, other?.metadata]).toEqual([{ a: { b: 1 } }, { a: { b: 1 } }]);
      expect(one?.metadata["a"]).not.toBe(other?.metadata["a"]);
    },
  );
});
