// Goal: the end of one subagent affects those started by the same reply as the policy says: it ends
// none, all, or those no longer needed.
// Method: real runs. Members work until they are cancelled, so a forgotten member makes the test
// hang.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  endings,
  heard,
  list,
  onward,
  rests,
  settlements,
} from "../../support/life-agents.ts";
import {
  calls,
  listens,
  part,
  spawn,
  receivedTexts,
  until,
  use,
} from "../../harness/scripted-agents.ts";
import {
  broken,
  newGroup,
  members,
  FAILED,
  COMPLETED,
  CANCELLED,
  receivedTexts1,
} from "../../support/life-groups.ts";

describe('`failurePolicy: "isolate"`', () => {
  proves(
    ["X11"],
    "is the default: a failed member is a result, and the others run to their end",
    async () => {
      const one = newGroup("isolate", [
        members("Fail.", "Look and succeed.", "Look and fail."),
        says("Done."),
      ]);
      const run = one.fixture.start(one.lead.role);
      await until(() => one.fixture.sink.ofType("subagent.ended").length === 1);
      one.look.open();
      const result = await one.fixture.outcome(run);
      expect([result.status, receivedTexts1(one)]).toEqual([
        "completed",
        [FAILED, COMPLETED, FAILED],
      ]);
    },
  );
});

describe('`failurePolicy: "fail_fast"`', () => {
  proves(
    ["X11"],
    "cancels and awaits the siblings of the first member that does not complete",
    async () => {
      const one = newGroup("fail_fast", [members("Work on.", "Fail.", "Work on."), says("Done.")]);
      const result = await one.fixture.run(one.lead.role);
      expect([result.text, receivedTexts1(one)]).toEqual([
        "Done.",
        [
          {
            subagent: "member#1",
            outcome: "cancelled",
            reason: "cancelled",
            explanation: "member#2, started by the same reply, did not complete.",
            text: "",
          },
          FAILED,
          CANCELLED,
        ],
      ]);
      const asked = one.fixture.sink.events.findLastIndex(
        (event) => event.type === "model.requested" && event.agentPath === "lead",
      );
      const last = one.fixture.sink.events.findLastIndex(({ type }) => type === "subagent.ended");
      expect(last).toBeLessThan(asked);
    },
  );

  test.each([
    ["Say nothing.", "partial"],
    ["Be mute.", "no_output"],
    ["Fail.", "failed"],
  ])("%s counts as not completed: %s", async (task, outcome) => {
    const one = newGroup("fail_fast", [members("Work on.", task), says("Done.")]);
    await one.fixture.run(one.lead.role);
    expect(settlements(one.fixture)).toEqual([
      `lead/member#2 ${outcome}`,
      "lead/member#1 cancelled",
    ]);
  });

  test("cancels the siblings of a member that the caller cancels", async () => {
    const one = newGroup("fail_fast", [members("Work on.", "Work on.", "Work on."), says("Done.")]);
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("tool.started").length === 6);
    const spawned = one.fixture.sink.ofType("subagent.spawned").map(({ childId }) => childId);
    run.cancelAgent(spawned[1] ?? expect.fail("none"), "Not needed.");
    const result = await one.fixture.outcome(run);
    expect([result.status, receivedTexts1(one)]).toEqual([
      "completed",
      [CANCELLED, CANCELLED, CANCELLED],
    ]);
  });

  test("cancels the descendants of a sibling, leaves first", async () => {
    const leaf = part("leaf", () => calls(use("listen")), { tools: [listens("listen")] });
    const boss = part("boss", [calls(spawn("leaf"), beside("leaf", "Another.")), says("Never.")], {
      delegation: { background: true },
      subagents: [leaf.role],
    });
    const gone = latch();
    const failing = part("failing", [{ ...broken, after: gone.opened }]);
    const lead = part("lead", [calls(spawn("boss"), spawn("failing")), says("Done.")], {
      delegation: { failurePolicy: "fail_fast" },
      subagents: [boss.role, failing.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => leaf.model.requests.length === 2);
    gone.open();
    const result = await s.outcome(run);
    expect([
      result.status,
      endings(s).slice(0, 1),
      endings(s).slice(1, 3).toSorted(),
      endings(s).slice(3),
    ]).toEqual([
      "completed",
      ["lead/failing#1"],
      ["lead/boss#1/leaf#1", "lead/boss#1/leaf#2"],
      ["lead/boss#1", "lead"],
    ]);
  });

  test("leaves completed members completed", async () => {
    const one = newGroup("fail_fast", [
      members("Succeed.", "Look and fail.", "Work on."),
      says("Done."),
    ]);
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("subagent.ended").length === 1);
    one.look.open();
    await one.fixture.outcome(run);
    expect(receivedTexts1(one)).toEqual([COMPLETED, FAILED, CANCELLED]);
  });

  test("does not count a refused delegation as a failure", async () => {
    const one = newGroup("fail_fast", [
      calls(spawn("nobody"), spawn("member", "Succeed."), onward("member#9", "More.")),
      says("Done."),
    ]);
    const result = await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([
      expect.stringContaining('there is no subagent "nobody"'),
      COMPLETED,
      expect.stringContaining('no subagent "member#9"'),
    ]);
    expect(result.refusalsByCode).toEqual({ unknown_role: 1, unknown_subagent: 1 });
  });

  test("refuses a member that would start after the failure", async () => {
    const mayAnswer = latch();
    const one = newGroup("fail_fast", [members("Fail.", "Succeed."), says("Done.")], {
      guards: [
        toolGuard(async ({ arguments: input }) => {
          if (JSON.stringify(input).includes("Succeed.")) await mayAnswer.opened;
          return { type: "allow" };
        }),
      ],
    });
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("subagent.ended").length === 1);
    mayAnswer.open();
    const result = await one.fixture.outcome(run);
    expect(receivedTexts1(one)).toEqual([
      FAILED,
      "Not started: member#1, started by the same reply, did not complete.",
    ]);
    expect([result.refusalsByCode, result.agents.length]).toEqual([{ group_decided: 1 }, 2]);
  });

  test("applies to a member that is continued in the same reply", async () => {
    const one = newGroup("fail_fast", [
      members("Succeed."),
      calls(onward("member#1", "Work on."), spawn("member", "Fail.")),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one, 2)).toEqual([CANCELLED, FAILED]);
  });
});

describe("`failurePolicy: { quorum: n }`", () => {
  proves(["X11"], "cancels and awaits the rest once n members have completed", async () => {
    const one = newGroup({ quorum: 2 }, [
      members("Work on.", "Succeed.", "Fail.", "Succeed.", "Work on."),
      says("Done."),
    ]);
    const result = await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([CANCELLED, COMPLETED, FAILED, COMPLETED, CANCELLED]);
    expect([result.status, new Set(endings(one.fixture)).size]).toEqual(["completed", 6]);
    expect(rests(result)["lead/member#1"]).toBe("cancelled (cancelled)");
    expect(JSON.stringify(receivedTexts(one.lead.model.requests[1])[0])).toContain(
      "2 of those started by the same reply have completed, which is enough.",
    );
  });

  proves(["X11"], "cancels the rest once n members can no longer complete", async () => {
    const one = newGroup({ quorum: 2 }, [
      members("Work on.", "Fail.", "Say nothing."),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([
      expect.objectContaining({
        outcome: "cancelled",
        explanation: "Of those started by the same reply, 2 cannot complete any more.",
      }),
      FAILED,
      expect.objectContaining({ outcome: "partial" }),
    ]);
  });

  test("needs only the first completed member if n is 1", async () => {
    const one = newGroup({ quorum: 1 }, [
      members("Work on.", "Work on.", "Succeed."),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([CANCELLED, CANCELLED, COMPLETED]);
  });

  test("counts a refused delegation as a member that cannot complete", async () => {
    const one = newGroup({ quorum: 2 }, [
      calls(spawn("member", "Work on."), spawn("nobody")),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([
      "Not started: Of those started by the same reply, 2 cannot complete any more.",
      expect.stringContaining('"nobody"'),
    ]);
  });

  test("counts a subagent that cannot be continued as a member that cannot complete", async () => {
    const one = newGroup({ quorum: 2 }, [
      calls(spawn("member", "Work on."), onward("member#7", "Go on.")),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([
      "Not started: Of those started by the same reply, 2 cannot complete any more.",
      expect.stringContaining('"member#7"'),
    ]);
  });

  test("does not count a call that starts no subagent", async () => {
    const one = newGroup({ quorum: 2 }, [
      calls(spawn("member", "Work on."), list(), spawn("member", "Fail.")),
      says("Done."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([CANCELLED, expect.any(Object), FAILED]);
  });

  test("counts a delegation denied by a guard as a member that cannot complete", async () => {
    const one = newGroup(
      { quorum: 2 },
      [calls(spawn("member", "Work on."), spawn("member", "Succeed.")), says("Done.")],
      {
        guards: [
          toolGuard(({ arguments: input }) =>
            JSON.stringify(input).includes("Succeed.")
              ? { type: "deny", reason: "No." }
              : { type: "allow" },
          ),
        ],
      },
    );
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([
      "Not started: Of those started by the same reply, 2 cannot complete any more.",
      expect.stringContaining("No."),
    ]);
  });

  test("larger than the reply does not prevent its members from completing", async () => {
    const one = newGroup({ quorum: 3 }, [members("Succeed."), says("Done.")]);
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([COMPLETED]);
  });

  test("is not decided early by a custom delegation that starts several subagents", async () => {
    const several = defineDelegation({
      name: "Ask_three",
      description: "Asks three.",
      inputSchema: z.object({}),
      execute: async (_input, { spawn: start }) => {
        const [first] = await Promise.all(
          ["Succeed.", "Look and succeed.", "Look and succeed."].map((task) =>
            start({ role: "member", task }),
          ),
        );
        return first ?? { type: "answered", text: "none" };
      },
    });
    const one = newGroup({ quorum: 3 }, [calls(use("Ask_three")), says("Done.")], {
      tools: [several],
    });
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("subagent.ended").length === 1);
    one.look.open();
    await one.fixture.outcome(run);
    expect(settlements(one.fixture)).toEqual([1, 2, 3].map((n) => `lead/member#${n} completed`));
  });
});

describe("group members in the background", () => {
  proves(
    ["X11"],
    "are cancelled with a failed sibling, and their results arrive as messages",
    async () => {
      const one = newGroup("fail_fast", [
        calls(beside("member", "Work on."), beside("member", "Look and fail.")),
        () => (one.look.open(), says("Early.")),
        says("Late."),
        says("Later."),
      ]);
      const result = await one.fixture.run(one.lead.role);
      expect(result.status).toBe("completed");
      expect(settlements(one.fixture)).toEqual(["lead/member#2 failed", "lead/member#1 cancelled"]);
      const reports = heard(one.lead.model.requests.at(-1), "report");
      expect(reports.map((text) => text.slice(0, 8)).toSorted()).toEqual(["member#1", "member#2"]);
    },
  );

  proves(["X11"], "form one group for each reply", async () => {
    const one = newGroup("fail_fast", [
      calls(beside("member", "Look and succeed.")),
      calls(spawn("member", "Fail."), spawn("member", "Work on.")),
      () => (one.look.open(), says("Early.")),
      says("Late."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(settlements(one.fixture)).toEqual([
      "lead/member#2 failed",
      "lead/member#3 cancelled",
      "lead/member#1 completed",
    ]);
  });

  test("form one group with the foreground members of the same reply", async () => {
    const one = newGroup({ quorum: 1 }, [
      calls(beside("member", "Work on."), spawn("member", "Succeed.")),
      says("Early."),
      says("Late."),
    ]);
    await one.fixture.run(one.lead.role);
    expect(settlements(one.fixture)).toEqual([
      "lead/member#2 completed",
      "lead/member#1 cancelled",
    ]);
  });

  const decided = "Of those started by the same reply, 2 cannot complete any more.";

  test("are cancelled if a denied custom delegation that names a role leaves too few", async () => {
    const ask = defineDelegation({
      name: "Ask",
      description: "Asks one.",
      inputSchema: z.object({ role: z.string() }),
      execute: async ({ role }, { spawn: start }) => await start({ role, task: "Succeed." }),
    });
    const one = newGroup(
      { quorum: 2 },
      [
        calls(beside("member", "Work on."), { toolName: "Ask", arguments: { role: "member" } }),
        says("Early."),
        says("Late."),
      ],
      {
        tools: [ask],
        guards: [toolGuard(() => ({ type: "deny", reason: "No." }), { tools: ["Ask"] })],
      },
    );
    await one.fixture.run(one.lead.role);
    expect(settlements(one.fixture)).toEqual(["lead/member#1 cancelled"]);
    expect(heard(one.lead.model.requests.at(-1), "report").join()).toContain(decided);
  });

  test("are cancelled if a later SpawnSubagent call with invalid arguments leaves too few", async () => {
    const pause = defineTool({
      name: "pause",
      description: "Pauses.",
      inputSchema: z.object({}),
      sequential: true,
      execute: () => "paused",
    });
    const one = newGroup(
      { quorum: 2 },
      [
        calls(beside("member", "Work on."), use("pause"), {
          toolName: "SpawnSubagent",
          arguments: { role: "member" },
        }),
        says("Early."),
        says("Late."),
      ],
      { tools: [pause] },
    );
    await one.fixture.run(one.lead.role);
    expect(settlements(one.fixture)).toEqual(["lead/member#1 cancelled"]);
    expect(heard(one.lead.model.requests.at(-1), "report").join()).toContain(decided);
  });
});
