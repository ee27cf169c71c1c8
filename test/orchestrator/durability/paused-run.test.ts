// Goal: a stored run is either read completely, or refused with a code and a message that explains
// the problem.
// Method: one paused run of a parent with a paused and an ended child, and many that differ from it
// in one place.

import { expect, test } from "vitest";
import { z } from "zod";

import { toSnapshot } from "../../../src/agent/agent-snapshot.ts";
import { isRecord } from "../../../src/kernel/json.ts";
import {
  PAUSED_RUN_VERSION,
  parsePausedRun,
  readPausedRun,
} from "../../../src/orchestrator/durability/paused-run.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { AGENT_ID, changes, settledState, states } from "../../support/changes.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { account, CHILD_ID, ENDED_ID, stored } from "../../support/stored-run.ts";
import { thrownBy, type Thrown } from "../../support/thrown.ts";

type Stored = ReturnType<typeof stored>;

/** Returns the refusal of a value; its JSON text must be refused alike. */
function refusal(value: unknown): Thrown {
  const thrown = thrownBy(() => readPausedRun(value));
  const text: unknown = JSON.stringify(value);
  if (text !== undefined) expect(thrownBy(() => readPausedRun(text))).toEqual(thrown);
  return thrown;
}

/** Returns the value with another part at a path; `undefined` removes the key. */
function withPart(value: unknown, path: readonly (string | number)[], part: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return part;
  if (Array.isArray(value))
    return value.map((one: unknown, index) => (index === key ? withPart(one, rest, part) : one));
  if (!isRecord(value)) throw new Error(`There is no ${key}.`);
  const changed = withPart(value[key], rest, part);
  const { [key]: _old, ...others } = value;
  return changed === undefined ? others : { ...others, [key]: changed };
}

proves(["R47"], "reads a paused run and its JSON text as the stored value", () => {
  const value = stored();
  expect(readPausedRun(value)).toEqual(value);
  expect(readPausedRun(JSON.stringify(value))).toEqual(value);
  expect(readPausedRun(JSON.stringify(value, null, 2))).toEqual(value);
  expect(JSON.parse(JSON.stringify(readPausedRun(value)))).toEqual(value);
});

test("returns a copy that later changes of the input do not affect", () => {
  const value = stored();
  const run = parsePausedRun(value);
  value.limits.maxDepth = 99;
  value.questions.pop();
  expect([run.limits.maxDepth, run.questions.length]).toEqual([2, 1]);
});

test("reads the paused run of a real result, as value and as text", async () => {
  const write = defineTool({
    name: "write",
    description: "Writes.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => "written",
  });
  const call = { toolName: "write", arguments: {} };
  const { role } = soloist([{ calls: [call] }], { tools: [write] });
  const { pausedRun, status } = await newFixture().start(role).result;
  expect(status).toBe("paused");
  expect(pausedRun?.questions.map(({ toolName }) => toolName)).toEqual(["write"]);
  expect(unfrozenParts(pausedRun).filter((path) => path !== "value")).toEqual([]);
  expect(readPausedRun(pausedRun)).toEqual(pausedRun);
  expect(readPausedRun(JSON.stringify(pausedRun))).toEqual(pausedRun);
});

test("reads a run that has ended like a paused one", () => {
  for (const end of [states().completed, states().stopped, states().failed, states().cancelled]) {
    const state = {
      ...toSnapshot(settledState(end)),
      executionId: `execution_of_${AGENT_ID}`,
    };
    const [root] = stored().agents;
    const accounts = stored().accounts.slice(0, 1);
    const ended = { ...stored(), agents: [{ ...root, state }], accounts, questions: [] };
    expect(readPausedRun(ended)).toEqual(ended);
    expect(readPausedRun(JSON.stringify(ended))).toEqual(ended);
  }
});

proves(
  ["R47", "D647"],
  "refuses another format version as such, whatever else the value contains",
  () => {
    for (const version of [PAUSED_RUN_VERSION + 1, 0, -1, 1.5]) {
      for (const value of [{ ...stored(), version }, { version }, { version, agents: "new" }]) {
        expect(refusal(value)).toEqual({
          code: "unsupported_version",
          message: `Expected a paused run of format version ${PAUSED_RUN_VERSION}, got version ${version}. Resume it with the version of espalier that paused it.`,
          data: { expected: PAUSED_RUN_VERSION, got: version },
        });
      }
    }
  },
);

test("refuses truncated text as truncated, wherever it was cut", () => {
  const text = JSON.stringify(stored());
  for (const share of [0, 0.001, 0.5, 0.999]) {
    const { code, message } = thrownBy(() => readPausedRun(text.slice(0, text.length * share)));
    expect([code, message]).toEqual([
      "invalid_paused_run",
      "Invalid paused run: it is not JSON; it may be truncated. Pass result.pausedRun complete and unchanged.",
    ]);
  }
});

for (const nothing of [null, undefined, 5, true, [], {}, [stored()], "null", "5", "{}", '""']) {
  test(`refuses ${JSON.stringify(nothing)?.slice(0, 20)}`, () => {
    const { code, message } = thrownBy(() => readPausedRun(nothing));
    expect(code).toBe("invalid_paused_run");
    expect(message).toMatch(/^Invalid paused run: .+ Pass result\.pausedRun complete/s);
  });
}

const TOP_KEYS = [
  "accounts",
  "agents",
  "answered",
  "definitions",
  "eventCount",
  "leaseCount",
  "limits",
  "pauseCount",
  "pausedAtMs",
  "prices",
  "questions",
  "refusalsByCode",
  "runId",
  "traceId",
  "version",
] as const;
const AGENT_KEYS = [
  "agentId",
  "agentPath",
  "depth",
  "execution",
  "executionId",
  "isDetached",
  "metadata",
  "ordinals",
  "parentAgentId",
  "role",
  "spawnCallId",
  "spawnStepId",
  "startedAtMs",
  "state",
  "task",
  "toolRules",
] as const;

proves(["R47"], "requires every key of its format version", () => {
  const run = parsePausedRun(stored());
  expect(Object.keys(run).toSorted()).toEqual(TOP_KEYS);
  for (const one of run.agents) expect(Object.keys(one).toSorted()).toEqual(AGENT_KEYS);
  const paths = [
    ...TOP_KEYS.map((key) => [key]),
    ...AGENT_KEYS.map((key) => ["agents", 1, key]),
    ...Object.keys(account("", null)).map((key) => ["accounts", 0, key]),
    ["limits", "maxDepth"],
    ["questions", 0, "argumentsHash"],
    ["agents", 0, "state", "step", "usage"],
    ["agents", 0, "state", "step", "hiddenTools"],
    ["agents", 0, "state", "log", "failures"],
    ["agents", 0, "state", "log", "failures", "retriesByTool"],
    ["prices", 0, "provider"],
    ["prices", 0, "model"],
    ["prices", 0, "price"],
    ["prices", 0, "price", "outputUsdPerMillion"],
  ];
  for (const path of paths) {
    const { code, message } = refusal(withPart(stored(), path, undefined));
    expect([path, code]).toEqual([path, "invalid_paused_run"]);
    expect(message).toContain(String(path.at(-1)));
  }
});

const EXTRA: readonly (readonly (string | number)[])[] = [
  ["mood"],
  ["limits", "mood"],
  ["agents", 0, "mood"],
  ["agents", 0, "state", "mood"],
  ["agents", 0, "state", "step", "input"],
  ["agents", 0, "state", "step", "error"],
  ["agents", 0, "state", "log", "mood"],
  ["agents", 0, "state", "log", "failures", "mood"],
  ["agents", 0, "state", "step", "hiddenTools", 0, "mood"],
  ["accounts", 0, "mood"],
  ["prices", 0, "mood"],
  ["prices", 0, "price", "mood"],
  ["questions", 0, "mood"],
];

for (const path of EXTRA) {
  test(`refuses the unknown key ${path.join(".")}`, () => {
    const { code, message } = refusal(withPart(stored(), path, "good"));
    expect(code).toBe("invalid_paused_run");
    expect(message).toContain(String(path.at(-1)));
  });
}

const WRONG: readonly (readonly [readonly (string | number)[], unknown])[] = [
  [["version"], "1"],
  [["version"], null],
  [["runId"], ""],
  [["pauseCount"], 0],
  [["pausedAtMs"], "9"],
  [["eventCount"], -1],
  [["leaseCount"], 1.5],
  [["prices"], {}],
  [["prices", 0, "price", "inputUsdPerMillion"], -1],
  [["agents", 0, "state", "log", "failures", "toolErrors"], -1],
  [["agents", 0, "state", "log", "failures", "retriesByTool", "read"], 0.5],
  [["limits", "maxDepth"], null],
  [["refusalsByCode", "depth_limit"], "two"],
  [["questions"], {}],
  [["questions", 0, "kind"], "guess"],
  [["agents"], []],
  [["accounts"], []],
  [["agents", 1, "depth"], -1],
  [["agents", 1, "spawnCallId"], 5],
  [["agents", 1, "state", "status"], "running"],
  [["agents", 1, "state", "telemetry", "budgetWaitMs"], null],
  [["agents", 0, "state", "step", "deferrals", 0, "type"], "wish"],
  [["agents", 0, "state", "conversation", "messages", 0, "role"], "prophet"],
  [["accounts", 0, "limits"], { wishes: 3 }],
];

for (const [path, part] of WRONG) {
  test(`refuses and names ${path.join(".")} with the value ${JSON.stringify(part)}`, () => {
    const { code, message } = refusal(withPart(stored(), path, part));
    expect(code).toBe("invalid_paused_run");
    const named = path
      .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
      .join("")
      .slice(1);
    expect(message).toContain(named);
  });
}

const swapped = (run: Stored, ...order: readonly number[]): unknown => ({
  ...run,
  agents: order.flatMap((index) => run.agents[index] ?? []),
});
const reparented = (index: number, parent: string | null): ((run: Stored) => unknown) => {
  return (run) => withPart(run, ["agents", index, "parentAgentId"], parent);
};

const MISFITS: readonly (readonly [string, (run: Stored) => unknown, string])[] = [
  ["no root at its head", (run) => swapped(run, 1, 0, 2), "its first agent is not the root"],
  [
    "an agent that is in it twice",
    (run) => swapped(run, 0, 1, 2, 2),
    "lead/agent_3 is in it twice",
  ],
  [
    "an agent before its parent",
    reparented(1, ENDED_ID),
    "lead/agent_of_call_2 precedes its parent, or has none",
  ],
  [
    "an agent without parent",
    reparented(2, "agent_9"),
    "lead/agent_3 precedes its parent, or has none",
  ],
  [
    "an agent without account",
    (run) => ({ ...run, accounts: run.accounts.slice(0, 2) }),
    "its accounts do not match its agents",
  ],
  [
    "a question too few",
    (run) => ({ ...run, questions: [] }),
    "its questions do not match its agents",
  ],
  [
    "a question too many",
    (run) => ({ ...run, questions: [...run.questions, ...run.questions] }),
    "its questions do not match its agents",
  ],
  [
    "another question",
    (run) => withPart(run, ["questions", 0, "questionId"], "execution_9.1.0"),
    "its questions do not match its agents",
  ],
  [
    "a subagent that is missing",
    (run) => swapped(run, 0, 2),
    "a paused subagent of lead is missing",
  ],
];

for (const [what, change, problem] of MISFITS) {
  test(`refuses a run with ${what}`, () => {
    expect(refusal(change(stored()))).toEqual({
      code: "invalid_paused_run",
      message: `Invalid paused run: ${problem}. Pass result.pausedRun complete and unchanged.`,
      data: {},
    });
  });
}

/** Further inconsistencies. */
const OTHER_MISFITS: readonly (readonly [string, (run: Stored) => unknown])[] = [
  ["two roots", reparented(2, null)],
  [
    "a question whose arguments are not those of the call",
    (run) => withPart(run, ["questions", 0, "argumentsHash"], "other"),
  ],
  [
    "a subtask whose subagent is missing",
    (run) =>
      withPart(run, ["agents", 0, "state", "log", "subtasks"], changes().recordSubtasks.subtasks),
  ],
  [
    "an account of no agent",
    (run) => ({ ...run, accounts: [...run.accounts, account("agent_9", AGENT_ID)] }),
  ],
  [
    "two accounts of one agent",
    (run) => ({ ...run, accounts: [...run.accounts, account(ENDED_ID, AGENT_ID)] }),
  ],
  [
    "an account below another one than its agent",
    (run) => withPart(run, ["accounts", 2, "parentId"], CHILD_ID),
  ],
  [
    "a state of another execution than its agent's",
    (run) => withPart(run, ["agents", 1, "executionId"], "execution_9"),
  ],
  [
    "a question about a call that the reply does not make",
    (run) => withPart(run, ["agents", 0, "state", "step", "deferrals", 0, "callId"], "call_9"),
  ],
];

for (const [what, change] of OTHER_MISFITS) {
  test(`refuses an inconsistent run with ${what}`, () => {
    expect(refusal(change(stored())).code).toBe("invalid_paused_run");
  });
}

test("refuses endlessly nested metadata like other invalid values", () => {
  const deep: unknown = JSON.parse(`${'{"a":'.repeat(9_000)}1${"}".repeat(9_000)}`);
  const run = withPart(stored(), ["agents", 0, "metadata"], deep);
  expect(thrownBy(() => readPausedRun(run)).code).toBe("invalid_paused_run");
});
