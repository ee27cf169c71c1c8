// Goal: text of people, models, tools and providers leaves a viewer only as configured: not at all
// with content off, and redacted with a redaction.
// Method: a canary in every text, and all routes of a viewer.

import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { RunId } from "../../src/protocol/ids.ts";
import { ToolError } from "../../src/tools/tool-error.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { engineWorld, runId } from "../support/engine/engine-world.ts";
import { takeFaults } from "../harness/process-watch.ts";
import { proves } from "../harness/proves.ts";
import { storedEvents } from "../support/journal/stored-events.ts";
import { spawnCall, thinker, type Thought } from "../support/journal/thinkers.ts";
import {
  act,
  ask,
  askApi,
  openFeed,
  placeOf,
  type Place,
} from "../support/viewer-server/asking.ts";
import { asker, opened } from "../support/viewer-server/viewer-world.ts";

const CANARY = "canary-4711";
const ID = runId("secret");

/** Every text of this run contains the canary. */
function teller(): AgentRole {
  const thing = z.looseObject({});
  const tool = (name: string, execute: () => string, needsApproval = false) =>
    defineTool({
      name,
      description: `Does ${CANARY}.`,
      inputSchema: thing,
      needsApproval,
      execute,
    });
  const helper = defineAgent({
    name: "helper",
    description: `Helps with ${CANARY}.`,
    instructions: `You know ${CANARY}.`,
    model: thinker("helper", ({ results }): Thought => {
      if (results.length === 0)
        return {
          calls: [
            ["read", { [CANARY]: CANARY }],
            ["fail", { thing: CANARY }],
            ["forbidden", { thing: CANARY }],
            [`unknown_${CANARY}`, { thing: CANARY }],
          ],
        };
      throw new Error(`The provider says ${CANARY}.`);
    }),
    errorBudget: { maxConsecutiveErrors: 10, maxToolErrors: 10 },
    tools: [
      tool("read", () => `Result: ${CANARY}`),
      tool("fail", () => {
        throw new ToolError(`It failed: ${CANARY}`);
      }),
      tool("forbidden", () => CANARY),
    ],
    guards: [
      toolGuard(({ toolName }) =>
        toolName === "forbidden" ? { type: "deny", reason: `No: ${CANARY}` } : { type: "allow" },
      ),
    ],
  });
  return defineAgent({
    name: "lead",
    description: `Leads ${CANARY}.`,
    instructions: `You lead ${CANARY}.`,
    model: thinker("lead", ({ results }): Thought => {
      const helper = spawnCall("helper", `Do ${CANARY}.`);
      if (results.length === 0) return { calls: [helper, spawnCall(`nobody_${CANARY}`, CANARY)] };
      if (results.length === 2) return { calls: [["pay", { thing: CANARY }]] };
      return { text: `Done: ${CANARY}` };
    }),
    subagents: [helper],
    tools: [tool("pay", () => `Paid ${CANARY}`, true)],
  });
}

/** Returns all responses of a viewer about a run, from every route, errors included. */
async function allSaid(place: Place, id: RunId, agentIds: readonly string[]): Promise<string> {
  const said: string[] = [];
  const take = async (path: string): Promise<void> => {
    const { text, headers } = await askApi(place, path);
    said.push(text, JSON.stringify(headers));
  };
  for (const path of [
    "meta",
    "runs",
    `runs?q=${CANARY}`,
    "questions",
    `runs/${id}`,
    `runs/${id}/log?limit=1000`,
    `runs/${id}/interrupted`,
  ])
    await take(path);
  for (const agentId of agentIds) {
    await take(`runs/${id}/agents/${agentId}`);
    for (const step of [1, 2, 3]) await take(`runs/${id}/agents/${agentId}/steps/${step}`);
  }
  for (const type of ["tool.ended", "agent.started", "question.asked"])
    await take(`runs/${id}/log?type=${type}`);
  const feed = await openFeed(place, id);
  said.push(JSON.stringify(await feed.next()));
  feed.close();
  said.push(
    (await ask(place, "/")).text,
    (await act(place, id, { key: "1", type: "answer", answers: [] })).text,
  );
  return said.join("\n");
}

async function told() {
  const world = engineWorld();
  const { store, process, clock } = world;
  const role = teller();
  const orchestrator = process({ roles: [role] });
  const paused = await orchestrator.start(role, `Find ${CANARY}.`, {
    runId: ID,
    metadata: { note: CANARY },
  }).result;
  const agentIds = paused.agents.map(({ agentId }) => agentId);
  return { ...world, store, clock, orchestrator, paused, agentIds };
}

proves(
  ["V75"],
  "sends no canary of any text of a paused and then ended run with content off",
  async () => {
    const { store, clock, orchestrator, paused, agentIds } = await told();
    const events = await storedEvents(store, ID);
    // The canary is in all of these events, so its absence elsewhere is meaningful.
    const types = new Set(
      events.filter((one) => JSON.stringify(one).includes(CANARY)).map(({ type }) => type),
    );
    expect([...types].toSorted()).toEqual([
      "agent.ended",
      "agent.started",
      "continuation.evaluated",
      "model.failed",
      "question.asked",
      "run.paused",
      "run.started",
      "signal.raised",
      "step.completed",
      "subagent.ended",
      "subagent.refused",
      "subagent.spawned",
      "tool.ended",
      "tool.guarded",
      "tool.rejected",
      "tool.started",
    ]);
    const off = placeOf(await opened({ store, clock, content: false }));
    const on = placeOf(await opened({ store, clock }));
    expect(await allSaid(on, ID, agentIds)).toContain(CANARY);
    expect(await allSaid(off, ID, agentIds)).not.toContain(CANARY);
    const { body } = await askApi(off, "questions");
    const [question] = paused.questions ?? [];
    expect(body).toMatchObject({
      questions: [
        {
          questionId: question?.questionId,
          argumentsHash: question?.argumentsHash,
          arguments: {},
          reason: "",
          task: "",
          toolName: "pay",
        },
      ],
    });
    expect((await askApi(off, `runs?q=${CANARY}`)).body).toEqual({ runs: [] });
    expect((await askApi(off, "runs")).body).toMatchObject({
      runs: [{ title: "lead", status: "input_required" }],
    });
    const answers = [
      {
        type: "denied",
        questionId: question?.questionId,
        argumentsHash: question?.argumentsHash,
        reason: `No: ${CANARY}`,
      },
    ];
    const answered = await act(off, ID, { key: "1", type: "answer", answers });
    expect([answered.status, answered.text]).toEqual([202, expect.not.stringContaining(CANARY)]);
    const again = await act(off, ID, { key: "2", type: "answer", answers });
    expect([again.status, again.text]).toEqual([409, expect.not.stringContaining(CANARY)]);
    await (
      await orchestrator.resume(ID)
    ).result;
    expect((await storedEvents(store, ID)).at(-1)?.type).toBe("run.ended");
    expect(await allSaid(off, ID, agentIds)).not.toContain(CANARY);
  },
);

proves(
  ["V75"],
  "returns the remaining question without content after another was answered",
  async () => {
    const { store, clock, process } = engineWorld();
    const role = asker([CANARY, `more of ${CANARY}`]);
    const { questions } = await process({ roles: [role] }).start(role, CANARY, { runId: ID })
      .result;
    const off = placeOf(await opened({ store, clock, content: false }));
    const [first, second] = questions;
    if (first === undefined || second === undefined) throw new Error("It asks twice.");
    const { questionId, argumentsHash } = first;
    const answers = [{ type: "approved", questionId, argumentsHash }];
    const said = await act(off, ID, { key: "1", type: "answer", answers });
    expect(said).toMatchObject({
      status: 202,
      body: { openQuestions: [{ questionId: second.questionId, arguments: {}, reason: "" }] },
    });
    expect(said.text).not.toContain(CANARY);
  },
);

proves(["V75"], "reports an unreadable journal without its content", async () => {
  const { store, clock } = engineWorld();
  const ownership = await store.create(ID, `lead: ${CANARY}`, {
    token: "t",
    hostname: "h",
    processId: 1,
  });
  await store.append(ownership, {
    firstNumber: 1,
    records: [`{"type":"run","version":1,"runId":"secret","limits":{}}`, `{"${CANARY}`],
  });
  const off = placeOf(await opened({ store, clock, content: false }));
  const { status, body, text } = await askApi(off, `runs/${ID}`);
  expect([status, body]).toMatchObject([422, { code: "invalid_journal" }]);
  expect(text).toContain("record 2");
  expect(text).not.toContain(CANARY);
  expect((await askApi(off, "runs")).body).toMatchObject({ runs: [{ title: "lead" }] });
  // The warnings of the process do not contain it either.
  const answers = [{ type: "approved", questionId: "q", argumentsHash: "0".repeat(64) }];
  const answered = await act(off, ID, { key: "1", type: "answer", answers });
  expect([answered.status, answered.text]).toEqual([422, expect.not.stringContaining(CANARY)]);
  expect(takeFaults().warnings).toEqual([]);
});

proves(["V76"], "redacts whole texts before it shortens them", async () => {
  const world = engineWorld();
  const { store, clock, process } = world;
  const role = teller();
  // Where titles and rows are cut, the word is cut as well.
  for (const length of [180, 190, 195, 200]) {
    const task = `${"x".repeat(length)}${CANARY}`;
    await process({ roles: [role] }).start(role, task, { runId: `secret-${length}` }).result;
  }
  const asked = new Set<string>();
  const redact = (text: string): string => {
    asked.add(text);
    return text.replaceAll(CANARY, "***");
  };
  const place = placeOf(await opened({ store, clock, content: { redact } }));
  for (const length of [180, 190, 195, 200]) {
    const id = runId(`secret-${length}`);
    const { body } = await askApi(place, `runs/${id}`);
    const said = JSON.stringify(body);
    expect(said).not.toContain("canary");
    expect(said).toContain("***");
    expect(asked).toContain(`${"x".repeat(length)}${CANARY}`);
  }
  const { text } = await askApi(place, "runs");
  expect(text).not.toContain("canary");
  expect(text).toContain(`lead: ${"x".repeat(180)}***`);
  expect((await askApi(place, `runs?q=${CANARY}`)).body).toEqual({ runs: [] });
  expect((await askApi(place, "runs?q=***")).body).toMatchObject({
    runs: [{ runId: "secret-190" }, { runId: "secret-180" }],
  });
});

proves(["D621"], "redacts member names and numbers of results and arguments", async () => {
  const { store, clock, process } = engineWorld();
  const code = 4711;
  const inside = { [`${CANARY}-1`]: code, [`${CANARY}-2`]: [code, 12, -code], "***": true };
  const clerk = defineAgent({
    name: "clerk",
    description: "Files.",
    instructions: "You file.",
    model: thinker("clerk", ({ results }) => ({
      calls: [results.length === 0 ? ["file", inside] : ["Finish", { entries: inside }]],
    })),
    output: z.object({ entries: z.record(z.string(), z.json()) }),
    tools: [
      defineTool({
        name: "file",
        description: "Files it.",
        inputSchema: z.looseObject({}),
        needsApproval: true,
        execute: () => "filed",
      }),
    ],
  });
  const run = process({ roles: [clerk] });
  const { questions, agents } = await run.start(clerk, "File.", { runId: ID }).result;
  const redact = (text: string): string =>
    text.replaceAll(/canary-4711-\d/g, "***").replaceAll("4711", "****");
  const place = placeOf(await opened({ store, clock, content: { redact } }));
  const shown = { "***": "****", "*** 2": ["****", 12, "-****"], "*** 3": true };
  const asked = await askApi(place, "questions");
  expect(asked.body).toMatchObject({ questions: [{ arguments: shown }] });
  const answers = questions.map(({ questionId, argumentsHash }) => ({
    type: "approved",
    questionId,
    argumentsHash,
  }));
  await act(place, ID, { key: "1", type: "answer", answers });
  await (
    await run.resume(ID)
  ).result;
  const agentIds = agents.map(({ agentId }) => agentId);
  const detail = await askApi(place, `runs/${ID}/agents/${agentIds[0]}`);
  expect(detail.body).toMatchObject({ output: { entries: shown } });
  const said = await allSaid(place, ID, agentIds);
  expect(said).toContain("****");
  expect(said).not.toContain("4711");
});

/** Returns a non-text value against its type. */
function noText(text: string): string;
function noText(): unknown {
  return 4711;
}

proves(
  ["V76"],
  "withholds a text if its redaction throws or returns a non-text value",
  async () => {
    for (const redact of [
      () => {
        throw new Error(CANARY);
      },
      noText,
    ]) {
      const { store, clock, agentIds } = await told();
      const place = placeOf(await opened({ store, clock, content: { redact } }));
      const said = await allSaid(place, ID, agentIds);
      expect(said).not.toContain(CANARY);
      expect(said).toContain("[withheld: redact failed]");
      await new Promise((resolve) => setImmediate(resolve));
      const { warnings } = takeFaults();
      expect(warnings).toEqual([expect.stringContaining("content.redact")]);
      expect(warnings.join("\n")).not.toContain(CANARY);
    }
  },
);
