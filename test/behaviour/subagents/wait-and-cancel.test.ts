// Goal: a parent can wait for its background subagents, cancel them, and still reach them after a
// compaction.
// Method: real runs with scripted models and latches; the parent's messages are compared in full,
// and each result counted.

import { describe, expect, test } from "vitest";
import { says } from "../../../src/testing/scripted-model.ts";
import type { ScriptedCall, ScriptStep } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  calls,
  listens,
  part,
  quiet,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const BACKGROUND = { delegation: { background: true } } as const;

function beside(role: string, task = "Work."): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task, background: true } };
}

function verb(name: string, input: object = {}): ScriptedCall {
  return { toolName: name, arguments: input };
}

const RESULT =
  '{"outcome":"completed","steps":1,"subagent":"worker#1","text":"Worked.","totalTokens":15}';

/** A lead that starts two subagents, the second of which works until the latch opens. */
function two(...replies: readonly ScriptStep[]) {
  const done = latch();
  const quick = part("quick", [says("Quick.")]);
  const slow = part("slow", [says("Slow.", { after: done.opened })]);
  const settle = tool("settle", async () => {
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    return "settled";
  });
  const lead = part(
    "lead",
    [calls(beside("quick"), beside("slow")), calls(use("settle")), ...replies],
    {
      ...BACKGROUND,
      subagents: [quick.role, slow.role],
      tools: [settle],
    },
  );
  const s = newFixture();
  return { s, lead, done };
}

describe("waiting for subagents", () => {
  proves(["X10"], "returns the current status if the timeout is zero", async () => {
    const { s, lead, done } = two(
      calls(verb("WaitForSubagents", { subagents: ["slow#1"], timeoutSeconds: 0 })),
      () => (done.open(), says("Early.")),
      says("Late."),
    );
    const result = await s.run(lead.role);
    expect([result.text, receivedTexts(lead.model.requests[3])]).toEqual([
      "Late.",
      ['{"status":"running","subagent":"slow#1"}'],
    ]);
  });

  test("returns a result again, once, if its report was read before", async () => {
    const { s, lead, done } = two(
      calls(verb("WaitForSubagents", { subagents: ["quick#1", "quick#1"] })),
      () => (done.open(), says("Early.")),
      says("Late."),
    );
    const result = await s.run(lead.role);
    const all = lead.model.requests.at(-1)?.messages.filter(({ text }) => text.includes("Quick."));
    expect([result.text, all?.map(({ role }) => role)]).toEqual(["Late.", ["user", "tool"]]);
  });

  proves(
    ["X10"],
    "includes all that are running or unread if no names are given, and each result is read once",
    async () => {
      const done = latch();
      const quick = part("quick", [says("Quick.")]);
      const slow = part("slow", [says("Slow.", { after: done.opened })]);
      const lead = part(
        "lead",
        [
          calls(beside("quick"), beside("slow")),
          () => (done.open(), calls(verb("WaitForSubagents"))),
          says("Done."),
        ],
        { ...BACKGROUND, subagents: [quick.role, slow.role] },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      const texts =
        lead.model.requests
          .at(-1)
          ?.messages.map(({ text }) => text)
          .join("\n") ?? "";
      expect([result.text, texts.split("Quick.").length, texts.split("Slow.").length]).toEqual([
        "Done.",
        2,
        2,
      ]);
    },
  );

  proves(["X10"], "waits for a foreground sibling as well", async () => {
    const done = latch();
    const worker = part("worker", [says("Worked.", { after: done.opened })]);
    const lead = part(
      "lead",
      [
        calls(
          { toolName: "SpawnSubagent", arguments: { role: "worker", task: "Work." } },
          verb("WaitForSubagents", { subagents: ["worker#1"] }),
        ),
        says("Done."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        guards: [
          toolGuard(
            async () => {
              await until(() => worker.model.requests.length === 1);
              return { type: "allow" };
            },
            { tools: ["WaitForSubagents"] },
          ),
        ],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => worker.model.requests.length === 1);
    await quiet();
    expect(s.sink.ofType("tool.ended")).toEqual([]);
    done.open();
    const result = await s.outcome(run);
    expect([result.status, receivedTexts(lead.model.requests[1])]).toEqual([
      "completed",
      [RESULT, RESULT],
    ]);
  });

  test("is not interrupted by a message to the waiting agent", async () => {
    const { s, lead, done } = two(calls(verb("WaitForSubagents")), says("Done."));
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 3);
    const delivery = run.steer("Hurry.");
    await quiet();
    expect(lead.model.requests).toHaveLength(3);
    done.open();
    const result = await s.outcome(run);
    expect([result.text, await delivery]).toEqual(["Done.", { isDelivered: true, stepNumber: 4 }]);
  });

  test("ends with a requested pause, and every result is read once afterwards", async () => {
    const held = latch();
    const worker = part(
      "worker",
      [{ ...calls(use("look")), after: held.opened }, says("Worked.")],
      {
        tools: [tool("look", () => "seen")],
      },
    );
    const lead = part(
      "lead",
      [calls(beside("worker")), calls(verb("WaitForSubagents")), says("Early."), says("Late.")],
      {
        ...BACKGROUND,
        subagents: [worker.role],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 2);
    await quiet();
    run.requestPause();
    held.open();
    const paused = await s.outcome(run);
    expect(paused.status).toBe("paused");
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun));
    const texts =
      lead.model.requests
        .at(-1)
        ?.messages.map(({ text }) => text)
        .join("\n") ?? "";
    expect([result.status, texts.split("Worked.").length]).toEqual(["completed", 2]);
  });
});

describe("cancelling a subagent", () => {
  test("returns the end of a foreground subagent to both calls, and settles it once", async () => {
    const worker = part("worker", [calls(use("listen")), says("Never.")], {
      tools: [listens("listen")],
    });
    const lead = part(
      "lead",
      [
        calls(
          { toolName: "SpawnSubagent", arguments: { role: "worker", task: "Work." } },
          verb("CancelSubagent", { subagent: "worker#1" }),
        ),
        says("Done."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        guards: [
          toolGuard(
            async () => {
              await until(() =>
                s.sink.ofType("tool.started").some(({ toolName }) => toolName === "listen"),
              );
              return { type: "allow" };
            },
            { tools: ["CancelSubagent"] },
          ),
        ],
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([
      result.status,
      result.agents[1]?.reason.message,
      s.sink.ofType("subagent.ended").length,
    ]).toEqual(["completed", "lead, its parent, cancelled it.", 1]);
    const [one, two] = receivedTexts(lead.model.requests[1]);
    expect([one, one === two]).toEqual([expect.stringContaining('"outcome":"cancelled"'), true]);
  });

  test("ends its descendants, leaves first, and returns its text so far", async () => {
    const leaf = part("leaf", () => calls(use("listen")), { tools: [listens("listen")] });
    const worker = part(
      "worker",
      [
        {
          text: "So far.",
          calls: [{ toolName: "SpawnSubagent", arguments: { role: "leaf", task: "Work." } }],
        },
      ],
      { subagents: [leaf.role] },
    );
    const settle = tool("settle", async () => {
      await until(() =>
        s.sink.ofType("tool.started").some(({ toolName }) => toolName === "listen"),
      );
      return "settled";
    });
    const lead = part(
      "lead",
      [
        calls(beside("worker")),
        calls(use("settle")),
        calls(verb("CancelSubagent", { subagent: "worker#1" })),
        says("Done."),
      ],
      { ...BACKGROUND, subagents: [worker.role], tools: [settle] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.text, s.sink.ofType("agent.ended").map(({ agentPath }) => agentPath)]).toEqual([
      "Done.",
      ["lead/worker#1/leaf#1", "lead/worker#1", "lead"],
    ]);
    expect(receivedTexts(lead.model.requests[3])[0]).toContain('"text":"So far."');
  });

  test("returns one end to both calls if the same reply waits for it", async () => {
    const worker = part("worker", [calls(use("listen")), says("Never.")], {
      tools: [listens("listen")],
    });
    const lead = part(
      "lead",
      [
        calls(beside("worker")),
        calls(verb("WaitForSubagents"), verb("CancelSubagent", { subagent: "worker#1" })),
        says("Done."),
      ],
      { ...BACKGROUND, subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    const [one, two] = receivedTexts(lead.model.requests[2]);
    expect([result.text, one === two, s.sink.ofType("subagent.ended").length]).toEqual([
      "Done.",
      true,
      1,
    ]);
  });
});

describe("a compaction", () => {
  proves(
    ["X10"],
    "is followed by a list of the subagents with their status, so that all remain reachable",
    async () => {
      const done = latch();
      const slow = part("slow", [says("Slow.", { after: done.opened })]);
      const quick = part("quick", [says("Quick."), says("Again.")]);
      const look = tool("look", () => "seen");
      const lead = part(
        "lead",
        [
          calls(beside("slow"), {
            toolName: "SpawnSubagent",
            arguments: { role: "quick", task: "Work." },
          }),
          calls(use("look")),
          calls(use("look")),
          calls(use("look")),
          calls({
            toolName: "SpawnSubagent",
            arguments: { role: "quick", task: "More.", continue: "quick#1" },
          }),
          () => (done.open(), calls(verb("WaitForSubagents", { subagents: ["slow#1"] }))),
          says("Done."),
        ],
        {
          ...BACKGROUND,
          subagents: [slow.role, quick.role],
          tools: [look],
          compaction: { maxInputTokens: 60, keepMessages: 2 },
          scripted: { countTokens: ({ messages }) => messages.length * 8 },
        },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(s.sink.ofType("conversation.compacted").length).toBeGreaterThan(0);
      const notices = lead.model.requests.flatMap(({ messages }) =>
        messages
          .filter((message) => message.role === "user" && message.origin === "notice")
          .map(({ text }) => text),
      );
      expect(notices).toContain(
        "Your subagents so far, by the names under which you reach them: slow#1 (running), quick#1 (completed).",
      );
      expect([result.text, result.refusalsByCode]).toEqual(["Done.", {}]);
    },
  );

  test("does not repeat the list of subagents", async () => {
    const worker = part("worker", [says("Worked.")]);
    const look = tool("look", () => "seen");
    const lead = part(
      "lead",
      [
        calls({ toolName: "SpawnSubagent", arguments: { role: "worker", task: "Work." } }),
        ...Array.from({ length: 8 }, () => calls(use("look"))),
        says("Done."),
      ],
      {
        subagents: [worker.role],
        tools: [look],
        compaction: { maxInputTokens: 60, keepMessages: 4 },
        scripted: { countTokens: ({ messages }) => messages.length * 8 },
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.status).toBe("completed");
    expect(s.sink.ofType("conversation.compacted").length).toBeGreaterThan(1);
    for (const { messages } of lead.model.requests)
      expect(
        messages.filter(({ text }) => text.startsWith("Your subagents so far")).length,
      ).toBeLessThan(2);
  });
});
