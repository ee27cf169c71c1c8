// Goal: a change since a recording is named: the agent, its step and the field, the recorded value
// and the new one.
// Method: recordings replayed with roles that differ in one thing; damaged recordings.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import type { Recording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { ActionReader, Comparison } from "../../../src/testing/replay/comparison.ts";
import { proves } from "../../harness/proves.ts";
import { Fakes, type Build } from "../../fixtures/journals/fakes.ts";
import { recorded, replayed } from "../../fixtures/journals/play.ts";
import { inTurn, lead } from "../../fixtures/journals/roles.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";

type More = Partial<AgentDefinition>;

const LOUD = transform("beforeModel", ({ instructions }) => ({ instructions: `${instructions}!` }));

const OPENING = [
  [["look", { thing: "map" }]],
  [spawnCall("worker", "a"), spawnCall("worker", "b")],
] as const;

function changed(
  more: (fakes: Fakes) => More = () => ({}),
  below: (fakes: Fakes) => More = () => ({}),
): Build {
  return (fakes) => ({
    role: lead(fakes, inTurn(...OPENING), {
      tools: [fakes.tool("look")],
      subagents: [
        defineAgent({
          name: "worker",
          description: "Works",
          instructions: "You work.",
          model: fakes.model("worker", inTurn([["measure", { thing: "it" }]])),
          tools: [fakes.slow("measure", 2)],
          ...below(fakes),
        }),
      ],
      ...more(fakes),
    }),
  });
}

async function difference(build: Build, recording: Recording): Promise<readonly string[]> {
  try {
    await replayed(build, recording);
    return [];
  } catch (cause) {
    if (!EspalierError.is(cause)) throw cause;
    const { data } = cause;
    const [path, step, ...others] = ["agentPath", "stepNumber", "field", "expected", "got"].map(
      (key) => (typeof data[key] === "number" ? String(data[key]) : textOf(data[key])),
    );
    return [cause.code, `${path ?? ""} ${step ?? ""}`, ...others];
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value.slice(0, 60) : "";
}

proves(
  ["R175", "X25", "D680"],
  "names the agent, the step and the field of a change in a role",
  async () => {
    const { recording } = await recorded(changed());
    const found: Record<string, unknown> = {};
    const changes: Record<string, Build> = {
      nothing: changed(),
      instructions: changed(() => ({ instructions: "You lead well." })),
      "instructions below": changed(undefined, () => ({ instructions: "You work well." })),
      name: changed(() => ({ name: "chief" })),
      temperature: changed(undefined, () => ({ temperature: 0.3 })),
      "a tool more": changed((fakes) => ({ tools: [fakes.tool("look"), fakes.tool("listen")] })),
      "a tool less": changed(() => ({ tools: [] })),
      "a schema": changed((fakes) => ({
        tools: [
          defineTool({
            name: "look",
            description: "Does look.",
            inputSchema: z.object({ thing: z.string().min(1) }),
            execute: () => fakes.isAlive,
          }),
        ],
      })),
      budget: changed(() => ({ budget: { totalTokens: 60 } })),
      "budget below": changed(undefined, () => ({ budget: { steps: 1 } })),
      "time below": changed(undefined, () => ({ budget: { timeMs: 60_000 } })),
      "context policy": changed(() => ({ contextPolicy: { inheritMessages: true } })),
      limits: changed(() => ({ limits: { maxBreadthPerParent: 1 } })),
      "a stop condition": changed(undefined, () => ({
        stopWhen: [
          ({ steps }) =>
            steps.length < 1 ? undefined : { code: "one", message: "One.", data: {} },
        ],
      })),
      "a hook": changed(undefined, () => ({
        hooks: [transform("afterTool", ({ text }) => ({ text: `${text}!` })), LOUD],
      })),
      "a hook that asks for more": changed(() => ({
        hooks: [
          transform("stop", ({ vetoes }) => (vetoes < 1 ? { continueWith: "More." } : undefined)),
        ],
      })),
      "a guard that denies": changed(() => ({
        guards: [toolGuard(() => ({ type: "deny", reason: "No." }), { tools: ["SpawnSubagent"] })],
      })),
      "no subagents": changed(() => ({ subagents: [] })),
      "another model": changed(undefined, (fakes) => ({ model: fakes.model("other", inTurn()) })),
      delegation: changed(() => ({ delegation: { failurePolicy: "fail_fast", background: true } })),
      sections: changed(undefined, () => ({
        sections: [{ name: "place", lifetime: "step", text: "Here." }],
      })),
    };
    for (const [name, build] of Object.entries(changes))
      found[name] = (await difference(build, recording)).slice(1);
    expect(found).toEqual({
      nothing: [],
      instructions: [
        "lead 0",
        "state.conversation.messages[0].text",
        '"You lead."',
        '"You lead well."',
      ],
      "instructions below": [
        "lead/worker#1 0",
        "state.conversation.messages[0].text",
        '"You work."',
        '"You work well."',
      ],
      name: ["lead 0", "role", '"lead"', '"chief"'],
      temperature: [
        "lead/worker#1 1",
        "state.step.context.parameters.temperature",
        "nothing",
        "0.3",
      ],
      "a tool more": ["lead 1", "state.step.context.toolNames[1]", '"SpawnSubagent"', '"listen"'],
      "a tool less": ["lead 1", "state.step.context.toolNames[0]", '"look"', '"SpawnSubagent"'],
      "a schema": [
        "lead 1",
        "state.step.context.toolsHash",
        '…erties\\":{\\"thing\\":{\\"type\\":\\"string\\"}},\\"required\\":[\\"',
        '…erties\\":{\\"thing\\":{\\"type\\":\\"string\\",\\"minLength\\":1}},',
      ],
      budget: ["lead 0", "agent.account.limits.totalTokens", "nothing", "60"],
      "budget below": ["lead/worker#1 0", "agent.account.limits.steps", "nothing", "1"],
      "time below": ["lead/worker#1 0", "agent.account.timeLimit", "null", "60000"],
      "context policy": [
        "lead/worker#1 0",
        "state.conversation.messages[1]",
        "nothing",
        '{"role":"user","text":"Go.","origin":"inherited"}',
      ],
      limits: ["lead 2", "record", '"subagent.spawned"', '"subagent.refused"'],
      "a stop condition": [
        "lead/worker#1 1",
        "record",
        '"continuation.evaluated"',
        '"signal.raised"',
      ],
      "a hook": ["lead/worker#1 1", "state.step.context.promptHash", '"You work."', '"You work.!"'],
      "a hook that asks for more": [
        "lead 3",
        "record",
        '"signal.raised"',
        '"continuation.evaluated"',
      ],
      "a guard that denies": ["lead 2", "record", '"tool.started"', '"subagent.refused"'],
      "no subagents": ["lead 1", "state.step.context.toolNames[1]", '"SpawnSubagent"', "nothing"],
      "another model": ["lead/worker#1 0", "agent.started.model", '"worker"', '"other"'],
      delegation: ["lead 1", "state.step.context.toolNames[2]", "nothing", '"ListSubagents"'],
      sections: [
        "lead/worker#1 1",
        "state.step.context.shown",
        "nothing",
        '[{"type":"history","from":0,"to":2},{"type":"message","messa',
      ],
    });
  },
);

proves(["R175"], "refuses invalid recordings, and names the line", async () => {
  const { recording } = await recorded(changed());
  const lines = recording.trimEnd().split("\n");
  const broken: Record<string, unknown> = {
    nothing: "",
    "no text": 7,
    prose: "Once upon a time",
    "another version": recording.replace('"version":1', '"version":4'),
    "not from its start": lines.slice(1).join("\n"),
    "of no agent": lines.slice(0, 1).join("\n"),
    "half a line": recording.slice(0, recording.length / 2),
    "an unknown kind": recording.replace('"type":"effect"', '"type":"wonder"'),
    "an outcome of no kind": recording.replace('"type":"replied"', '"type":"sung"'),
  };
  const found: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(broken)) {
    const { role } = changed()(new Fakes({ isAlive: false }));
    // @ts-expect-error Values that are not text are refused at run time as well.
    found[name] = await replay(text, { role }).then(
      () => "replayed",
      (cause: unknown) =>
        EspalierError.is(cause) ? [cause.code, cause.data["record"] ?? []].flat() : cause,
    );
  }
  expect(found).toEqual({
    nothing: ["invalid_journal", 1],
    "no text": ["invalid_argument"],
    prose: ["invalid_journal", 1],
    "another version": ["unsupported_version"],
    "not from its start": ["invalid_journal", 1],
    "of no agent": ["invalid_journal", 1],
    "half a line": ["invalid_journal", 82],
    "an unknown kind": ["invalid_journal", 15],
    "an outcome of no kind": ["invalid_journal", 15],
  });
});

proves(["R175"], "detects or replays a recording with a missing or a changed line", async () => {
  const { recording } = await recorded(changed());
  const lines = recording.trimEnd().split("\n");
  const codes = new Set<string>();
  const fields: string[] = [];
  for (const [index, line] of lines.entries()) {
    const isEffect = line.startsWith(`{"type":"effect"`);
    if (!isEffect && index % 4 !== 0) continue;
    const one = await difference(changed(), lines.toSpliced(index, 1).join("\n"));
    codes.add(one[0] ?? "replayed");
    if (isEffect) fields.push(one.slice(1, 3).join(" "));
  }
  expect([...codes].toSorted()).toEqual(["invalid_journal", "replay_diverged", "replayed"]);
  expect(fields).toEqual([
    "lead 1 effect",
    "lead 1 effect",
    "lead 2 effect",
    "lead/worker#1 1 effect",
    "lead/worker#2 1 effect",
    "lead/worker#1 1 effect",
    "lead/worker#2 1 effect",
    "lead/worker#1 2 effect",
    "lead 2 effect",
    "lead/worker#2 2 effect",
    "lead 2 effect",
    "lead 3 effect",
  ]);
  const other = recording.replace(String.raw`{\"thing\":\"map\"}`, String.raw`{\"thing\":\"sea\"}`);
  expect(await difference(changed(), other)).toEqual([
    "replay_diverged",
    "lead 1",
    "state.conversation.messages[2].toolCalls[0].argumentsText",
    '"{\\"thing\\":\\"map\\"}"',
    '"{\\"thing\\":\\"sea\\"}"',
  ]);
});

/** Returns the event of a limit in `axis` that was reached with `current`. */
function limitReached(axis: string, current: number): JournalRecord {
  const reason = { code: "limit", message: "Enough.", data: { axis, maximum: 1_000, current } };
  const signal = { source: "budget", reason };
  const event = { seq: 1, type: "signal.raised", atMs: 1, agentId: "lead", signal };
  return { type: "event", event };
}

test("ignores the elapsed time at a reached limit, and compares other amounts", () => {
  const found = ["timeMs", "totalTokens"].map((axis) => {
    const expected = new ActionReader(new Map()).read(limitReached(axis, 1_000));
    const compared = new Comparison(new Map(), expected === undefined ? [] : [expected]);
    compared.take(limitReached(axis, 1_007));
    return expected === undefined ? "nothing" : compared.first?.field;
  });
  expect(found).toEqual([undefined, "signal.raised.signal.reason.data.current"]);
});

test("ignores whether a trace was sampled", async () => {
  const { recording } = await recorded(changed());
  const shown = recording.replaceAll(`{"type":"event","event":{`, `$&"isSampled":true,`);
  expect(shown.length).toBeGreaterThan(recording.length);
  expect(await difference(changed(), shown)).toEqual([]);
});

test("gives up a replay whose user code never resolves", async () => {
  const { recording } = await recorded(changed());
  const found = await difference(
    changed(() => ({ hooks: [transform("beforeModel", () => new Promise(() => undefined))] })),
    recording,
  );
  expect(found.slice(1, 3)).toEqual(["lead 0", "budget.reserved"]);
});
