// The body of a function tool, in its slot, with the hooks around it.

import { defined } from "../../kernel/json.ts";
import { withinBounds, type BoundedOutcome } from "../../kernel/cancel.ts";
import type { WrappedToolCall } from "../../hooks/hook.ts";
import type { HookSet } from "../../hooks/hook-set.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { spanOf, type TimeSpan } from "../../protocol/step-timing.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { ToolRetryNote, ToolRuntime } from "../../tools/tool-runtime.ts";
import { resultText } from "../../tools/result-text.ts";
import { asToolResult } from "../../tools/tool-result.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import type { CallEnd } from "../effects.ts";
import { hookContext } from "../consult.ts";
import { WrappedTime } from "../wrapped-time.ts";
import type { CallOutcome } from "./call-outcome.ts";
import { CANCELLED, thrownOutcome, toolErrorRecord } from "./failed-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import { recordBegin, recordEnd, rejectUnbegun } from "./record.ts";

type FunctionCall = Extract<OwnCall, { readonly type: "function" }>;

/** Waits for a slot; gives it back once the end of the call is recorded. */
export async function runTool(call: OpenCall, bound: FunctionCall): Promise<CallEnd> {
  const { agent } = call;
  const askedAtMs = agent.run.clock.nowMs();
  agent.time.beginWork();
  try {
    const end = await agent.run.limiter.tool(call.signal, () => runInSlot(call, bound, askedAtMs));
    return end ?? rejectUnbegun(call, askedAtMs);
  } finally {
    agent.time.endWork();
  }
}

async function runInSlot(call: OpenCall, bound: FunctionCall, askedAtMs: number): Promise<CallEnd> {
  const { agent, effectPosition, planned } = call;
  const begun = recordBegin(call, askedAtMs);
  const beginning = agent.persistence?.begin(effectPosition, planned, bound.tool);
  if (beginning !== undefined) await beginning;
  const wraps = agent.hooks.hasToolWraps ? agent.hooks.toolWraps(call.toolName) : [];
  const worked =
    wraps.length === 0
      ? await run(call, () => runBody(call, bound))
      : await runWrapped(call, bound, wraps);
  return await recordEnd(call, begun, worked);
}

/** Runs the body with the hooks around it, whose time is kept apart from its own. */
async function runWrapped(
  call: OpenCall,
  bound: FunctionCall,
  wraps: ReturnType<HookSet["toolWraps"]>,
): Promise<CallOutcome> {
  const { agent, effectPosition, toolName, position } = call;
  const timed = new WrappedTime(agent.run.clock);
  const callFor = (hookName: string): WrappedToolCall => ({
    toolName,
    callId: position.callId,
    arguments: bound.input,
    context: hookContext(agent, effectPosition.stepNumber, hookName),
  });
  const body = (): Promise<unknown> => timed.during(() => runBody(call, bound));
  return await run(call, () => wrapped(wraps, callFor, body, agent.bounds), timed);
}

/** What came of the work of a call, within its bounds. `timed`: what its time went into, if that was not the tool alone. */
async function run(
  call: OpenCall,
  work: () => Promise<unknown>,
  timed?: WrappedTime,
): Promise<CallOutcome> {
  const { agent, signal, position } = call;
  const { clock } = agent.run;
  const startedAtMs = clock.nowMs();
  const working = agent.within(position, work);
  const bounded = await withinBounds(working, { ...agent.bounds, signal });
  const subtasks = call.close();
  const workedAtMs = clock.nowMs();
  const spans: readonly TimeSpan[] =
    timed === undefined ? spanOf("tool", startedAtMs, workedAtMs) : [...timed.hooks, ...timed.tool];
  // What an agent that only stops was given in time is a result; what the abort made the tool throw is none.
  const hasResult = bounded.type === "returned" && !agent.signal.aborted;
  if (signal.aborted && !hasResult) return { ...CANCELLED, spans };
  const outcome = outcomeOf(call.toolName, bounded);
  const formatting = spanOf("formatting", workedAtMs, clock.nowMs());
  return { ...outcome, ...defined({ subtasks }), spans: [...spans, ...formatting] };
}

async function runBody(call: OpenCall, { use }: FunctionCall): Promise<unknown> {
  const { timeoutMs } = call.planned.settings;
  const runtime = toolRuntime(call);
  return timeoutMs === undefined
    ? await use.run(call.context, runtime)
    : await runInTime(use, call.context, runtime, timeoutMs);
}

/** What the wrappers of a tool work with. */
function toolRuntime(call: OpenCall): ToolRuntime {
  const { agent, toolName } = call;
  const { run } = agent;
  return Object.freeze({
    toolName,
    clock: run.clock,
    graceMs: run.settings.graceMs,
    endSignal: call.signal.abortSignal,
    run,
    noteRetry: ({ attempt, error, delayMs }: ToolRetryNote) => {
      if (call.isClosed) return;
      const retried = { attempt, error: toolErrorRecord(error), delayMs };
      agent.emit({ type: "tool.retried", toolName, ...retried }, call.position);
    },
  });
}

function outcomeOf(toolName: string, bounded: BoundedOutcome<unknown>): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    return bounded.type === "threw"
      ? thrownOutcome(toolName, bounded.error)
      : returnedOutcome(bounded.value);
  } catch (cause) {
    return thrownOutcome(toolName, cause);
  }
}

/** The outcome of a call whose tool gave this. Throws what the result throws when it is looked at, and a `TypeError` for what is no JSON. */
export function returnedOutcome(result: unknown): CallOutcome {
  if (typeof result === "string") return { type: "succeeded", text: result };
  const known = asToolResult(result);
  if (known === undefined) return { type: "succeeded", text: resultText(result) };
  const { text, structured, attachments, show } = known;
  const kept =
    attachments.length === 0 ? {} : { attachments, ...(show ? {} : { isTextOnly: true as const }) };
  return { type: "succeeded", text, ...defined({ structured }), ...kept };
}
