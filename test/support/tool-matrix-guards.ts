// Guards with every answer in every sequence, the tool's own request for approval, and every kind
// of approver. The expected outcomes are derived from the documents.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { approve, deny, type Answer, type Question } from "../../src/protocol/question.ts";
import { says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { toolGuard, type GuardDecision, type ToolGuard } from "../../src/tools/tool-guard.ts";
import { newFixture, type Fixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";
import { calls, part, spawn, receivedTexts, use } from "../harness/scripted-agents.ts";
import { atPace } from "./tool-matrix.ts";

/** Answer of a guard. */
export const SAYINGS = ["allow", "ask", "deny", "throw", "slow"] as const;
export type Saying = (typeof SAYINGS)[number];

/** Answer of the tool's own check. */
export const NEEDS = ["nothing", "wants approval", "cannot say"] as const;
export type Need = (typeof NEEDS)[number];

/** Answerer of a question. */
export const APPROVALS = [
  "approver approves",
  "approver denies",
  "pause, approved",
  "pause, denied",
  "nobody",
] as const;
export type Approval = (typeof APPROVALS)[number];

export interface GuardCase {
  readonly sayings: readonly Saying[];
  readonly need: Need;
  readonly approval: Approval;
}

/** Outcome of the guarded call, and its reports. */
export interface GuardRecord {
  /** How often the tool ran. */
  readonly ran: number;
  /** How the call ended: its type, why, and who denied it. */
  readonly end: readonly string[];
  /** Messages that the model read. */
  readonly text: string;
  /** The guards as the event has them; undefined if there was none to ask. */
  readonly guarded: readonly string[] | undefined;
  /** Why an approver was asked, question by question. */
  readonly asked: readonly string[];
  /** Answers and their sources. */
  readonly answered: readonly string[];
  readonly isPaused: boolean;
  /** How the calls beside it ended, and how often their tool ran. */
  readonly beside: readonly (string | number)[];
  readonly status: string;
}

const GUARD_MS = 50;

/** A guard that does so, under the name `g1`, `g2`, … by its place. */
export function guardThat(saying: Saying, name: string, tools?: readonly string[]): ToolGuard {
  return toolGuard(
    (): GuardDecision | Promise<GuardDecision> => {
      switch (saying) {
        case "allow":
          return { type: "allow" };
        case "ask":
          return { type: "ask", reason: `${name} wants it seen.` };
        case "deny":
          return { type: "deny", reason: `${name} is against it.` };
        case "throw":
          throw new Error("broken");
        case "slow":
          return new Promise(() => undefined);
      }
    },
    { name, ...(tools === undefined ? {} : { tools }) },
  );
}

/** The tool, with its own need for an approval. */
export function toolThatNeeds(name: string, need: Need): ReturnType<typeof spyTool> {
  switch (need) {
    case "nothing":
      return spyTool(name, () => "sent");
    case "wants approval":
      return spyTool(name, () => "sent", { needsApproval: true });
    case "cannot say":
      return spyTool(name, () => "sent", { needsApproval: cannotSay });
  }
}

function cannotSay(): never {
  throw new Error("no list");
}

function approvalOptions(approval: Approval): OrchestratorOptions {
  switch (approval) {
    case "approver approves":
      return { approver: (question) => approve(question) };
    case "approver denies":
      return { approver: (question) => deny(question, "Too late.") };
    case "nobody":
      return { unansweredPolicy: "deny" };
    case "pause, approved":
    case "pause, denied":
      return {};
  }
}

/** Plays the guarded call, with a call of another tool before and after it in the same reply. */
export async function playGuards({ sayings, need, approval }: GuardCase): Promise<GuardRecord> {
  const tool = toolThatNeeds("send", need);
  const look = spyTool("look", () => "seen");
  const model = new ScriptedModel([calls(use("look"), use("send"), use("look")), says("Done.")]);
  const guards = sayings.map((saying, index) => guardThat(saying, `g${index + 1}`, ["send"]));
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [look, tool],
    guards,
  });
  const fixture = newFixture({ hookTimeoutMs: GUARD_MS, ...approvalOptions(approval) });
  const first = await atPace(fixture, fixture.start(role), GUARD_MS);
  const result = first.status === "paused" ? await answered(fixture, role, first, approval) : first;
  const [before, end, after] = endsOf(result);
  return {
    ...said(fixture),
    ran: tool.calls.length,
    end: end ?? [],
    text: receivedTexts(model.requests[1])[1] ?? "",
    isPaused: first.status === "paused",
    beside: [...(before ?? []), ...(after ?? []), look.calls.length],
    status: result.status,
  };
}

async function answered(
  fixture: Fixture,
  role: AgentRole,
  paused: RunResult,
  approval: Approval,
): Promise<RunResult> {
  const answers = paused.questions.map((question) =>
    approval === "pause, approved" ? approve(question) : deny(question, "Too late."),
  );
  return await atPace(fixture, fixture.resume(role, paused.pausedRun, answers), GUARD_MS);
}

function endsOf(result: RunResult, agent = 0): readonly (readonly string[])[] {
  const steps = result.agents[agent]?.steps ?? [];
  return steps.flatMap(({ tools }) =>
    tools.executions.map(({ type, errorCode, blockedBy }) =>
      [type, errorCode, blockedBy].flatMap((word) => word ?? []),
    ),
  );
}

function said({ sink }: Fixture): Pick<GuardRecord, "guarded" | "asked" | "answered"> {
  const [guarded] = sink
    .ofType("tool.guarded")
    .map(({ decision, answers }) => [
      decision,
      ...answers.map(({ guard, answer, reason = "" }) => `${guard} ${answer} ${reason}`.trim()),
    ]);
  return {
    guarded,
    asked: sink.ofType("question.asked").map(({ reason }) => reason),
    answered: sink
      .ofType("question.answered")
      .map(({ answer, source }) => `${answer} by ${source}`),
  };
}

/**
 * Plays the same with guards at the orchestrator, at the root, and at the child that makes the
 * call.
 */
export async function playGuardsInTree(
  sayings: readonly Saying[],
  need: Need,
): Promise<Pick<GuardRecord, "ran" | "end" | "text" | "guarded" | "asked" | "answered">> {
  const tool = toolThatNeeds("send", need);
  const guards = sayings.map((saying, index) => [guardThat(saying, `g${index + 1}`, ["send"])]);
  const child = part("child", [calls(use("send"), use("look")), says("Child.")], {
    tools: [tool, spyTool("look")],
    guards: guards[2] ?? [],
  });
  const root = part("root", [calls(spawn("child"), use("look")), says("Root.")], {
    tools: [spyTool("look")],
    subagents: [child.role],
    guards: guards[1] ?? [],
  });
  const fixture = newFixture({
    hookTimeoutMs: GUARD_MS,
    guards: guards[0] ?? [],
    ...approvalOptions("approver approves"),
  });
  const result = await atPace(fixture, fixture.start(root.role), GUARD_MS);
  return {
    ...said(fixture),
    ran: tool.calls.length,
    end: endsOf(result, 1)[0] ?? [],
    text: receivedTexts(child.model.requests[1])[0] ?? "",
  };
}

/**
 * Returns the expected outcome. A denial comes first, then a failed check, then the answer of the
 * approver.
 */
export function expectedGuards({ sayings, need, approval }: GuardCase): GuardRecord {
  const answers = sayings.map((saying, index) => answerOf(saying, `g${index + 1}`));
  const reasonsOf = (type: string): readonly string[] =>
    answers.flatMap((answer) => (answer.type === type ? [answer.reason] : []));
  const denials = reasonsOf("deny");
  const questions = [
    ...reasonsOf("ask"),
    ...(need === "wants approval" ? ["send needs approval."] : []),
  ];
  const decision = denials.length > 0 ? "deny" : reasonsOf("ask").length > 0 ? "ask" : "allow";
  const beside = ["succeeded", "succeeded", 2];
  const common = {
    guarded:
      answers.length === 0
        ? undefined
        : [
            decision,
            ...answers.map(({ name, type, reason }) => `${name} ${type} ${reason}`.trim()),
          ],
    beside,
    status: "completed",
  };
  const unasked = { ...common, asked: [], answered: [], isPaused: false, ran: 0 };
  if (denials.length > 0) {
    const by = answers.flatMap(({ type, name }) => (type === "deny" ? [name] : [])).join(", ");
    return { ...unasked, end: ["refused", "blocked", by], text: deniedText(denials.join(" ")) };
  }
  if (need === "cannot say") {
    const text =
      "Not executed: the approval check of send failed (no list). Do without it, or answer with what you have.";
    return { ...unasked, end: ["refused", "approval_check_failed"], text };
  }
  if (questions.length === 0) return { ...unasked, ran: 1, end: ["succeeded"], text: "sent" };
  const asked = questions.join(" ");
  return { ...common, asked: [asked], ...withCause(ANSWERED[approval], asked) };
}

/**
 * A denial contains the reason for the question, unless the tool only requires approval without a
 * reason.
 */
function withCause(answered: Answered, asked: string): Answered {
  if (answered.ran > 0 || asked === "send needs approval.") return answered;
  const cause = `Approval was required for this reason: ${asked} Do without it`;
  return { ...answered, text: answered.text.replace("Do without it", cause) };
}

type Answered = Pick<GuardRecord, "answered" | "ran" | "end" | "text" | "isPaused">;

const APPROVED = { ran: 1, end: ["succeeded"], text: "sent" };
const DENIED = { ran: 0, end: ["refused", "denied"], text: deniedText("Too late.") };

const ANSWERED: Readonly<Record<Approval, Answered>> = {
  "approver approves": { ...APPROVED, answered: ["approved by approver"], isPaused: false },
  "approver denies": { ...DENIED, answered: ["denied by approver"], isPaused: false },
  "pause, approved": { ...APPROVED, answered: ["approved by caller"], isPaused: true },
  "pause, denied": { ...DENIED, answered: ["denied by caller"], isPaused: true },
  nobody: {
    ...DENIED,
    text: deniedText("No approver is configured for this run."),
    answered: ["denied by nobody"],
    isPaused: false,
  },
};

function answerOf(
  saying: Saying,
  name: string,
): { readonly name: string; readonly type: string; readonly reason: string } {
  switch (saying) {
    case "allow":
      return { name, type: "allow", reason: "" };
    case "ask":
      return { name, type: "ask", reason: `${name} wants it seen.` };
    case "deny":
      return { name, type: "deny", reason: `${name} is against it.` };
    case "throw":
      return { name, type: "deny", reason: `The guard ${name} failed: broken.` };
    case "slow":
      return { name, type: "deny", reason: `The guard ${name} did not answer in time.` };
  }
}

function deniedText(reason: string): string {
  return `Not executed: send was denied. ${reason} Do without it, or answer with what you have.`;
}

/** Returns a cell of the golden table: the outcome of a call with each kind of approver. */
export function verdictText({ asked, end }: GuardRecord): string {
  const [reason] = asked;
  if (reason !== undefined) return `asked: ${reason}`;
  const [type, code, by] = end;
  return [type, code, by === undefined ? undefined : `by ${by}`]
    .flatMap((word) => word ?? [])
    .join(" ");
}

const GUARDED: readonly (readonly [toolName: string, saying: Saying, need: Need])[] = [
  ["allowed", "allow", "nothing"],
  ["asked", "ask", "nothing"],
  ["asked_again", "ask", "wants approval"],
  ["denied", "deny", "wants approval"],
  ["broken", "throw", "nothing"],
  ["slow", "slow", "nothing"],
  ["wishing", "allow", "wants approval"],
  ["unsure", "allow", "cannot say"],
];

function answerTo(question: Question): Answer {
  return question.toolName === "asked_again" ? deny(question, "Too late.") : approve(question);
}

/**
 * Plays calls with every answer of a guard in one reply, and unguarded calls between them.
 * Questions are approved, except about the tool `asked_again`.
 */
export async function playAllAnswers(way: "approver" | "pause"): Promise<{
  readonly fixture: Fixture;
  readonly model: ScriptedModel;
}> {
  const reply = GUARDED.flatMap(([toolName]) => [use(toolName), use("look")]);
  const model = new ScriptedModel([calls(...reply), says("Done.")]);
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [
      spyTool("look", () => "seen"),
      ...GUARDED.map(([toolName, , need]) => toolThatNeeds(toolName, need)),
    ],
    guards: GUARDED.map(([toolName, saying]) => guardThat(saying, `of_${toolName}`, [toolName])),
    // Calls that fail in a row must not end the run.
    errorBudget: { maxConsecutiveErrors: 99 },
  });
  const fixture = newFixture({
    hookTimeoutMs: GUARD_MS,
    ...(way === "approver" ? { approver: answerTo } : {}),
  });
  const first = await atPace(fixture, fixture.start(role), GUARD_MS);
  if (first.status === "paused") {
    const resumed = fixture.resume(role, first.pausedRun, first.questions.map(answerTo));
    await atPace(fixture, resumed, GUARD_MS);
  }
  return { fixture, model };
}
