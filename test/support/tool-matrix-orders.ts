// A tool in every order of the four wrappers, called twice concurrently with another call between,
// and the outcome as plain data.

import { defineAgent } from "../../src/agent/define-agent.ts";
import { sleep } from "../../src/kernel/cancel-signal.ts";
import type { Clock } from "../../src/kernel/clock.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { approve } from "../../src/protocol/question.ts";
import { says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { ToolError, ToolRetryError } from "../../src/tools/tool-error.ts";
import { toolGuard, type ToolGuard } from "../../src/tools/tool-guard.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import { withApproval } from "../../src/tools/wrappers/with-approval.ts";
import { withRateLimit } from "../../src/tools/wrappers/rate-limit.ts";
import { withRetries } from "../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../src/tools/wrappers/with-timeout.ts";
import { newFixture, flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";
import { calls, use } from "../harness/scripted-agents.ts";
import { atPace, ordersOf, readings } from "./tool-matrix.ts";

/** Durations in milliseconds. All relevant sums differ. */
export const TIMES = {
  grid: 50,
  body: 50,
  firstDelay: 100,
  secondDelay: 200,
  limitSpan: 1_000,
  timeout: 300,
  guard: 500,
  /** Longer than a timeout: a call that ignores its signal takes longer than its limit. */
  grace: 400,
} as const;

export const MAX_ATTEMPTS = 3;

const WRAPPERS = {
  approval: (tool: FunctionTool) => withApproval(tool, { reason: "It costs money." }),
  limit: (tool: FunctionTool) => withRateLimit(tool, { maxCalls: 1, windowMs: TIMES.limitSpan }),
  retries: (tool: FunctionTool) =>
    withRetries(tool, { maxAttempts: MAX_ATTEMPTS, initialDelayMs: TIMES.firstDelay }),
  timeout: (tool: FunctionTool) => withTimeout(tool, { timeoutMs: TIMES.timeout }),
} as const;

export type Wrapper = keyof typeof WRAPPERS;

/** All orders, the outermost wrapper first. */
export const ORDERS: readonly (readonly Wrapper[])[] = ordersOf([
  "approval",
  "limit",
  "retries",
  "timeout",
]);

/** Actions of the tool body, by attempt. */
export const ACTS = {
  "answers at once": ["answers"],
  "fails twice, then answers": ["fails", "fails", "answers"],
  "hangs twice, then answers": ["hangs", "hangs", "answers"],
  "always fails": ["fails", "fails", "fails"],
  "asks for a corrected call": ["retryable"],
  "fails once, then for good": ["fails", "fatal"],
  "gives up its agent": ["abortive"],
  "gives what is no JSON": ["no_json"],
} as const satisfies Readonly<Record<string, readonly Act[]>>;

export type ActName = keyof typeof ACTS;
export type Act = "answers" | "fails" | "hangs" | "retryable" | "fatal" | "abortive" | "no_json";

/** Answer of a guard for the calls, and the approver for its questions. */
export const WAYS = ["allow", "ask", "ask and pause", "deny", "throw", "slow"] as const;
export type Way = (typeof WAYS)[number];

export interface OrderCase {
  readonly order: readonly Wrapper[];
  readonly act: ActName;
  readonly way: Way;
  /** When the run is cancelled; between two points of the grid. Default: never. */
  readonly cancelAtMs?: number;
}

/** Outcome of a call. Times are in milliseconds since the start of the run. */
export interface CallRecord {
  readonly triesAtMs: readonly number[];
  /** How long a wrapper wanted to wait after each try that it repeats. */
  readonly waitsMs: readonly number[];
  readonly endedAtMs: number;
  readonly outcome: string;
  readonly errorCode?: string;
  readonly severity?: string;
  readonly blockedBy?: string;
  readonly questions: number;
}

/** Outcome of a run: its calls in call order, and its agent. */
export interface OrderRecord {
  readonly calls: readonly CallRecord[];
  readonly status: string;
  readonly reason: string;
}

export interface OrderPlay {
  readonly record: OrderRecord;
  /** Why an approver was asked. */
  readonly reasons: readonly string[];
  /** Messages about the calls that the model read. Empty if there was no further model call. */
  readonly read: string;
}

/** Plays a case: two calls of the wrapped tool at once, and one of a plain tool between them. */
export async function playOrder({ order, act, way, cancelAtMs }: OrderCase): Promise<OrderPlay> {
  const fixture = newFixture({
    hookTimeoutMs: TIMES.guard,
    graceMs: TIMES.grace,
    ...(way === "ask and pause" ? {} : { approver: (question) => approve(question) }),
  });
  const { tool, triesAtMs } = deploying(fixture.clock, ACTS[act]);
  const wrapped = order.reduceRight((inner, name) => WRAPPERS[name](inner), tool);
  const model = new ScriptedModel([
    calls({ toolName: "deploy", arguments: { part: 1 } }, use("look"), {
      toolName: "deploy",
      arguments: { part: 2 },
    }),
    says("Done."),
  ]);
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [wrapped, spyTool("look", () => "seen")],
    guards: [guardSaying(way)],
  });
  const run = fixture.start(role);
  if (cancelAtMs !== undefined) await cancelAt(fixture, run, cancelAtMs);
  const first = await atPace(fixture, run, TIMES.grid);
  const result = first.status === "paused" ? await approved(fixture, role, first) : first;
  return {
    record: recordOf(fixture, result, triesAtMs),
    reasons: fixture.sink.ofType("question.asked").map(({ reason }) => reason),
    read: readings(model.requests[1]),
  };
}

async function cancelAt({ clock }: Fixture, run: Run, cancelAtMs: number): Promise<void> {
  await flushEventLoop();
  while (clock.nowMs() + TIMES.grid < cancelAtMs) {
    clock.advance(TIMES.grid);
    await flushEventLoop();
  }
  clock.advance(cancelAtMs - clock.nowMs());
  await flushEventLoop();
  void run.cancel("Enough.");
}

async function approved(
  fixture: Fixture,
  role: Parameters<Fixture["resume"]>[0],
  paused: RunResult,
): Promise<RunResult> {
  const answers = paused.questions.map((question) => approve(question));
  return await atPace(fixture, fixture.resume(role, paused.pausedRun, answers), TIMES.grid);
}

/** The tool, which also requires approval itself, and the times of its attempts. */
function deploying(
  clock: Clock,
  acts: readonly Act[],
): { readonly tool: FunctionTool; readonly triesAtMs: ReadonlyMap<string, readonly number[]> } {
  const triesAtMs = new Map<string, readonly number[]>();
  const tool = spyTool(
    "deploy",
    async ({ callId, signal }) => {
      const before = triesAtMs.get(callId) ?? [];
      triesAtMs.set(callId, [...before, clock.nowMs()]);
      const act = acts[before.length] ?? "answers";
      if (act === "hangs") return await new Promise(() => undefined);
      await sleep(clock, TIMES.body, signal);
      return resultOf(act, before.length + 1);
    },
    { needsApproval: () => "It is Friday." },
  );
  return { tool, triesAtMs };
}

function resultOf(act: Exclude<Act, "hangs">, attempt: number): unknown {
  switch (act) {
    case "answers":
      return `deployed at try ${attempt}`;
    case "no_json":
      return circle();
    case "fails":
      throw new Error(`no connection at try ${attempt}`);
    case "retryable":
      throw new ToolRetryError("Name a region.");
    case "fatal":
      throw new ToolError("The account is closed.", { severity: "fatal" });
    case "abortive":
      throw new ToolError("The disk is on fire.", { severity: "abortive" });
  }
}

function circle(): object {
  const parts: unknown[] = [];
  parts.push(parts);
  return parts;
}

function guardSaying(way: Way): ToolGuard {
  return toolGuard(
    () => {
      switch (way) {
        case "allow":
          return { type: "allow" };
        case "ask":
        case "ask and pause":
          return { type: "ask", reason: "It is production." };
        case "deny":
          return { type: "deny", reason: "Not on Fridays." };
        case "throw":
          throw new Error("no calendar");
        case "slow":
          return new Promise(() => undefined);
      }
    },
    { name: "calendar", tools: ["deploy"] },
  );
}

function recordOf(
  { sink }: Fixture,
  { status, reason, steps, agents }: RunResult,
  triesAtMs: ReadonlyMap<string, readonly number[]>,
): OrderRecord {
  const executions = steps[0]?.tools.executions ?? [];
  const records = executions.map((execution): CallRecord => {
    const { callId } = execution.call;
    const { type: outcome, errorCode, severity, blockedBy, endedAtMs } = execution;
    return {
      triesAtMs: triesAtMs.get(callId) ?? [],
      waitsMs: sink
        .ofType("tool.retried")
        .flatMap((event) => (event.callId === callId ? [event.delayMs] : [])),
      endedAtMs,
      outcome,
      ...(errorCode === undefined ? {} : { errorCode }),
      ...(severity === undefined ? {} : { severity }),
      ...(blockedBy === undefined ? {} : { blockedBy }),
      questions: sink.ofType("question.asked").filter((event) => event.callId === callId).length,
    };
  });
  return {
    calls: records.filter((_record, index) => executions[index]?.call.toolName === "deploy"),
    status,
    reason: agents.length === 1 ? reason.code : "not alone",
  };
}

/** The wrapping as code would say it. */
export function orderText(order: readonly Wrapper[]): string {
  return `${order.join("(")}(deploy${")".repeat(order.length)}`;
}

/** Returns a golden table. Orders with the same outcome share a row. */
export function orderTable(
  act: ActName,
  plays: readonly (readonly [order: readonly Wrapper[], play: OrderPlay])[],
): string {
  const titles = new Map<string, readonly string[]>();
  for (const [order, play] of plays) {
    const lines = callLines(play).join("\n");
    titles.set(lines, [...(titles.get(lines) ?? []), orderText(order)]);
  }
  const blocks = [...titles].map(([lines, names]) => `${names.join("\n")}\n${lines}\n`);
  return `${tableHead(act)}\n\n${blocks.join("\n")}`;
}

function tableHead(act: ActName): string {
  const { body, firstDelay, secondDelay, limitSpan, timeout } = TIMES;
  return [
    `A tool that ${act}, called twice at once. The outermost wrapper comes first. Times are in ms.`,
    `A try takes ${body}. approval: asks before each call. limit: 1 start in ${limitSpan}.`,
    `retries: ${MAX_ATTEMPTS} tries, after ${firstDelay} and ${secondDelay}. timeout: ${timeout}.`,
  ].join("\n");
}

function callLines({ record, read }: OrderPlay): readonly string[] {
  const texts = read
    .split("\n")
    .filter((line) => line.startsWith("    "))
    .map((line) => line.trim().split(/(?<=\.) /)[0]);
  const [first, , second] = texts;
  return record.calls.flatMap((call, index) => {
    const { triesAtMs, waitsMs, endedAtMs, outcome, errorCode, questions } = call;
    const what = errorCode === undefined ? outcome : `${outcome} (${errorCode})`;
    const parts = [
      `questions: ${questions}`,
      `tried at: ${listed(triesAtMs)}`,
      `to be repeated after: ${listed(waitsMs)}`,
      `${what} at ${endedAtMs}`,
    ];
    return [
      `  ${parts.join("; ")}`,
      `      ${(index === 0 ? first : second) ?? "(nobody read it)"}`,
    ];
  });
}

function listed(times: readonly number[]): string {
  return times.length === 0 ? "-" : times.join(", ");
}
