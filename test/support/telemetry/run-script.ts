// RunScript: the events of a run, written by hand in the order in which the core emits them. Owns
// the drafts and their clock, which gains 10 ms with each event. Every text that a user, a model or
// a tool would write contains CANARY.

import type { EspalierError } from "../../../src/kernel/error.ts";
import type { EventScope, EventBody, EventType } from "../../../src/protocol/event.ts";
import type { EventDraft } from "../../../src/protocol/event.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  LeaseIdSchema,
  QuestionIdSchema,
  RunIdSchema,
  createStepId,
} from "../../../src/protocol/ids.ts";
import type { Question } from "../../../src/protocol/question.ts";
import type { ToolFailure } from "../../../src/protocol/tool-error-record.ts";
import {
  TOOL_FAILURES,
  type SpawnRefusalCode,
  type ToolFailureCode,
} from "../../../src/protocol/tool-failure.ts";
import type { TerminalStatus } from "../../../src/protocol/stop.ts";
import { NO_USAGE, type Usage } from "../../../src/protocol/usage.ts";
import { SAMPLE_MANIFEST } from "../sample-manifest.ts";
import { hashText } from "../../../src/protocol/definition.ts";
import { NO_TIMING } from "../../../src/protocol/step-timing.ts";
import {
  CANARY,
  ONE_CALL,
  PAUSED,
  PREVIOUS_TRACE_ID,
  reasonOf,
  START_MS,
  TICK_MS,
} from "./run-script-facts.ts";

type Body<T extends EventType> = Omit<EventBody<T>, "type">;

export class RunScript {
  readonly drafts: EventDraft[] = [];
  readonly root: AgentScript;
  readonly #runId;
  #nowMs = START_MS;

  constructor(runName = "1", role = "lead") {
    this.#runId = RunIdSchema().parse(`run_${runName}`);
    this.root = new AgentScript(this, { role, path: role, depth: 0, parent: undefined });
  }

  get runId() {
    return this.#runId;
  }

  started(): void {
    this.add(this.#correlation(), {
      type: "run.started",
      schemaVersion: 1,
      role: this.root.role,
      task: CANARY,
      limits: { maxDepth: 3, maxBreadthPerParent: 5, maxTotalSubagents: 10 },
      budget: { totalTokens: 10_000 },
    });
  }

  ended(status: TerminalStatus = "completed", subagents = 0): void {
    this.add(this.#correlation(), {
      type: "run.ended",
      status,
      reason: reasonOf(status),
      signals: [],
      usage: { own: ONE_CALL, descendants: NO_USAGE, total: ONE_CALL },
      subagentsByDepth: subagents === 0 ? {} : { "1": subagents },
      refusalsByCode: {},
      durationMs: 1,
    });
  }

  /** Ends a segment. `askedBy`, if given, has an open question about call_1. */
  paused(askedBy?: AgentScript): void {
    this.add(this.#correlation(), {
      type: "run.paused",
      reason: PAUSED,
      questions: askedBy === undefined ? [] : [askedBy.question("call_1", "write")],
      usage: { own: ONE_CALL, descendants: NO_USAGE, total: ONE_CALL },
      durationMs: 1,
    });
  }

  resumed(recovery?: Body<"run.resumed">["recovery"]): void {
    this.add(this.#correlation(), {
      type: "run.resumed",
      schemaVersion: 1,
      role: this.root.role,
      task: CANARY,
      limits: { maxDepth: 3, maxBreadthPerParent: 5, maxTotalSubagents: 10 },
      budget: { totalTokens: 10_000 },
      pauseCount: 1,
      pausedMs: 60_000,
      previousTraceId: PREVIOUS_TRACE_ID,
      answerCount: 1,
      ...(recovery === undefined ? {} : { recovery }),
    });
  }

  add(scope: EventScope, body: EventBody): void {
    this.drafts.push({ seq: this.drafts.length + 1, atMs: this.#nowMs, scope, body });
    this.#nowMs += TICK_MS;
  }

  #correlation(): EventScope {
    return { ...this.root.scope(), executionId: null, stepId: null };
  }
}

interface Seat {
  readonly role: string;
  readonly path: string;
  readonly depth: number;
  readonly parent: AgentScript | undefined;
}

export class AgentScript {
  readonly role: string;
  readonly #run: RunScript;
  readonly #seat: Seat;
  #step = 0;
  #children = 0;

  constructor(run: RunScript, seat: Seat) {
    this.#run = run;
    this.#seat = seat;
    this.role = seat.role;
  }

  get agentId() {
    return AgentIdSchema().parse(`agent_${this.#seat.path}`);
  }

  /** Creates an agent that this one could start, without an event. */
  child(role: string): AgentScript {
    this.#children += 1;
    const path = `${this.#seat.path}/${role}#${this.#children}`;
    return new AgentScript(this.#run, { role, path, depth: this.#seat.depth + 1, parent: this });
  }

  started(spawnCallId?: string): void {
    this.#add({ type: "agent.started", ...this.#introduction(spawnCallId) });
  }

  pauses(): void {
    const usage = { own: ONE_CALL, descendants: NO_USAGE, total: ONE_CALL };
    this.#add({
      type: "agent.paused",
      role: this.role,
      reason: PAUSED,
      stepCount: this.#step,
      usage,
    });
  }

  resumes(spawnCallId?: string): void {
    this.#add({ type: "agent.resumed", ...this.#introduction(spawnCallId) });
  }

  isReserved(waitedMs = 0, lease = 9): void {
    this.#add({
      type: "budget.reserved",
      leaseId: LeaseIdSchema().parse(`lease_${lease}`),
      inputTokens: 100,
      maxOutputTokens: 500,
      waitedMs,
    });
  }

  /** Starts a step, up to the request to the model. */
  asks({ waitedMs = 0, queuedMs = 0 } = {}): void {
    this.#step += 1;
    this.isReserved(waitedMs, this.#step);
    this.#add({
      type: "step.started",
      number: this.#step,
      promptHash: hashText("Work."),
      toolsHash: hashText("[]"),
    });
    this.#add({
      type: "model.requested",
      provider: "scripted",
      model: "model-1",
      messageCount: 2,
      toolNames: ["search"],
      estimatedInputTokens: 100,
      isEstimated: false,
      maxOutputTokens: 500,
      streaming: false,
      ...(queuedMs > 0 ? { queuedMs } : {}),
    });
  }

  retries(delayMs = 250): void {
    const error = { code: "model_overloaded", message: CANARY, data: {} };
    this.#add({ type: "model.retried", attempt: 1, error, delayMs });
  }

  warns(): void {
    this.#add({ type: "model.warned", warning: CANARY });
  }

  hears(said: Partial<Body<"model.replied">> = {}): void {
    this.#add({
      type: "model.replied",
      finishReason: "stop",
      toolCallCount: 0,
      usage: ONE_CALL,
      attemptCount: 1,
      responseId: "response_1",
      responseModel: "model-1-2026",
      queuedMs: 0,
      ...said,
    });
    this.#settled(ONE_CALL);
  }

  failsToHear(code: EspalierError["code"] = "model_unavailable"): void {
    this.#add({
      type: "model.failed",
      error: { code, message: CANARY, data: { body: CANARY } },
      isRetryable: true,
      usage: NO_USAGE,
      attemptCount: 3,
      queuedMs: 0,
    });
    this.#settled(NO_USAGE);
  }

  asksLeave(callId: string, toolName: string, kind: Question["kind"] = "approval"): void {
    this.#add({ type: "question.asked", ...this.question(callId, toolName, kind) }, callId);
  }

  isAnswered(
    callId: string,
    toolName: string,
    said: Partial<Body<"question.answered">> = {},
  ): void {
    const questionId = QuestionIdSchema().parse(`question_${callId}`);
    const answer = {
      answer: "approved",
      source: "caller",
      by: CANARY,
      reason: CANARY,
      waitedMs: 60_000,
    } as const;
    this.#add({ type: "question.answered", questionId, toolName, ...answer, ...said }, callId);
  }

  /** Adds hooks that change the arguments of a call, and a repair of the request to the model. */
  hooks(callId: string): void {
    const changedBy = [{ hook: "mask", fields: ["arguments"] }];
    const [before, after] = [{ path: CANARY }, { path: `${CANARY} masked` }];
    this.#add({ type: "hook.applied", point: "beforeTool", changedBy, before, after }, callId);
    this.#add({ type: "request.repaired", repairCount: 1 });
  }

  /** Adds an event about a step, or about one of its calls. */
  notes(body: EventBody, callId?: string): void {
    this.#add(body, callId);
  }

  /** Lets the call of the next step wait for budget. */
  awaitsBudget(accountPath: string): void {
    this.#step += 1;
    this.#add({ type: "budget.queued", accountPath });
    this.#step -= 1;
  }

  compacts(): void {
    const messages = { messagesBefore: 40, messagesAfter: 12 };
    const tokens = { tokensBefore: 90_000, tokensAfter: 20_000 };
    this.#add({ type: "conversation.compacted", ...messages, ...tokens });
  }

  isTold(origin: Body<"message.delivered">["origin"]): void {
    this.#add({ type: "message.delivered", origin, characters: 42 });
  }

  pausesCall(callId: string): void {
    this.#add({ type: "tool.paused", toolName: "SpawnSubagent" }, callId);
  }

  resumesCall(callId: string): void {
    const description = "Does delegation";
    const face = { toolName: "SpawnSubagent", kind: "delegation", description, index: 0 } as const;
    this.#add({ type: "tool.resumed", ...face }, callId);
  }

  calls(
    callId: string,
    toolName: string,
    kind: Body<"tool.started">["kind"] = "function",
    more: Pick<Body<"tool.started">, "isRepaired"> = {},
  ): void {
    const description = `Does ${kind}`;
    this.#add({ type: "tool.started", toolName, kind, description, index: 0, ...more }, callId);
  }

  /** Calls an unknown tool, under a name that the model made up. */
  callsNobody(callId: string): void {
    const begun = { type: "tool.started", toolName: CANARY, kind: "function" } as const;
    this.#add({ ...begun, description: "", index: 0 }, callId);
  }

  gets(
    callId: string,
    toolName: string,
    { code, ...ended }: Partial<Body<"tool.ended">> & { readonly code?: ToolFailureCode } = {},
  ): void {
    const outcome = ended.outcome ?? "succeeded";
    const rest = { resultCharacters: 12, durationMs: 10, queuedMs: 0, ...ended };
    const error = code && { error: toolFailure(code) };
    this.#add(
      {
        type: "tool.ended",
        toolName,
        outcome,
        success: outcome === "succeeded",
        ...error,
        ...rest,
      },
      callId,
    );
  }

  /** Rejects a call before it runs. */
  rejects(
    callId: string,
    toolName: string,
    {
      code,
      ...said
    }: Pick<Body<"tool.rejected">, "outcome"> & { readonly code: ToolFailureCode } & Partial<
        Body<"tool.rejected">
      >,
  ): void {
    const known = { kind: "function", description: "Does it", error: toolFailure(code) } as const;
    const place = { index: 0, resultCharacters: 12 };
    this.#add({ type: "tool.rejected", toolName, ...known, ...place, ...said }, callId);
  }

  /** Spawns a subagent. Without a call it is a subtask. */
  spawns(callId: string | undefined, child: AgentScript): void {
    this.#add(
      {
        type: "subagent.spawned",
        childId: child.agentId,
        childPath: child.#seat.path,
        role: child.role,
        childDepth: child.#seat.depth,
        task: CANARY,
        isBackground: false,
        inherited: SAMPLE_MANIFEST,
        subagentsByDepth: { "1": 1 },
      },
      callId,
    );
  }

  /** Refuses a spawn. The role is known, unless its name is the canary. */
  isRefused(callId: string | undefined, role: string, code: SpawnRefusalCode): void {
    const error = { code, message: CANARY, maximum: 3, current: 3 };
    const childDepth = this.#seat.depth + 1;
    const isKnown = role === CANARY ? {} : ({ isKnownRole: true } as const);
    this.#add({ type: "subagent.refused", role, ...isKnown, childDepth, error }, callId);
  }

  hearsOfEnd(callId: string | undefined, child: AgentScript, status: TerminalStatus): void {
    this.#add(
      {
        type: "subagent.ended",
        childId: child.agentId,
        childPath: child.#seat.path,
        role: child.role,
        childDepth: child.#seat.depth,
        outcome: status === "stopped" ? "partial" : status,
        status,
        reason: reasonOf(status),
        usage: { own: ONE_CALL, descendants: NO_USAGE, total: ONE_CALL },
      },
      callId,
    );
  }

  isBudgetRefused(): void {
    this.#add({
      type: "budget.refused",
      axis: "totalTokens",
      accountPath: "lead",
      maximum: 10_000,
      spent: 9_990,
      requested: 600,
    });
  }

  reachesThreshold(): void {
    this.#add({
      type: "budget.threshold_reached",
      axis: "totalTokens",
      accountPath: "lead",
      threshold: 0.8,
      spent: 8_100,
      maximum: 10_000,
    });
  }

  isGranted(by: string): void {
    this.#add({
      type: "budget.granted",
      accountPath: "lead",
      budget: { totalTokens: 5_000, steps: 2 },
      by,
      remaining: { totalTokens: 6_900, steps: 2 },
    });
  }

  isReleased(): void {
    this.#add({ type: "budget.released", leaseId: LeaseIdSchema().parse("lease_9") });
  }

  isCancelled(): void {
    this.#add({
      type: "signal.raised",
      signal: { reason: reasonOf("cancelled"), source: "caller" },
    });
  }

  decides(decision: "continue" | "stop", toolCalls = 0): void {
    this.#add({
      type: "step.completed",
      number: this.#step,
      usage: ONE_CALL,
      timing: NO_TIMING,
      toolCallCount: toolCalls,
    });
    this.#add({ type: "continuation.evaluated", decision, work: [], signals: [] });
  }

  ended(status: TerminalStatus = "completed", errorCode?: string): void {
    this.#add({
      type: "agent.ended",
      role: this.role,
      status,
      reason: reasonOf(status),
      stepCount: this.#step,
      text: CANARY,
      usage: { own: ONE_CALL, descendants: NO_USAGE, total: ONE_CALL },
      ...(errorCode === undefined
        ? {}
        : { error: { code: errorCode, message: CANARY, data: { body: CANARY } } }),
      signals: [],
      durationMs: 1,
    });
  }

  /** Runs the agent from its start to its end in one step. */
  lives(spawnCallId?: string): void {
    this.started(spawnCallId);
    this.asks();
    this.hears();
    this.decides("stop");
    this.ended();
  }

  scope(callId?: string): EventScope {
    const executionId = ExecutionIdSchema().parse(`execution_${this.#seat.path}`);
    return {
      runId: this.#run.runId,
      agentId: this.agentId,
      parentAgentId: this.#seat.parent?.agentId ?? null,
      agentPath: this.#seat.path,
      depth: this.#seat.depth,
      executionId,
      stepId: this.#step === 0 ? null : createStepId(executionId, this.#step),
      callId: callId === undefined ? null : CallIdSchema().parse(callId),
    };
  }

  question(callId: string, toolName: string, kind: Question["kind"] = "approval"): Question {
    return {
      questionId: QuestionIdSchema().parse(`question_${callId}`),
      kind,
      agentId: this.agentId,
      agentPath: this.#seat.path,
      callId: CallIdSchema().parse(callId),
      toolName,
      arguments: { path: CANARY },
      argumentsHash: `hash of ${CANARY}`,
      reason: CANARY,
      askedAtMs: START_MS,
      deadlineAtMs: null,
    };
  }

  #introduction(spawnCallId: string | undefined): Body<"agent.started"> {
    return {
      role: this.role,
      description: `To be the ${this.role}`,
      provider: "scripted",
      model: "model-1",
      task: CANARY,
      spawnCallId: spawnCallId === undefined ? null : CallIdSchema().parse(spawnCallId),
      budget: { totalTokens: 10_000, costUsd: 0.5 },
    };
  }

  #settled(usage: Usage): void {
    this.#add({
      type: "budget.settled",
      leaseId: LeaseIdSchema().parse(`lease_${this.#step}`),
      usage,
      remaining: { totalTokens: 9_000 },
      runRemaining: { totalTokens: 9_000 },
    });
  }

  #add(body: EventBody, callId?: string): void {
    this.#run.add(this.scope(callId), body);
  }
}

/** Returns the error of a call, as the table of failures defines it. */
function toolFailure(code: ToolFailureCode): ToolFailure {
  return { code, message: CANARY, severity: TOOL_FAILURES[code].severity };
}
