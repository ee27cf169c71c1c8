// The body of a function tool, in its slot, with the hooks around it.

import { defined } from "../../kernel/json.ts";
import { withinBounds, type BoundedOutcome } from "../../kernel/cancel.ts";
import type { Release } from "../../kernel/semaphore.ts";
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
import { CANCELLED, thrownOutcome, toolErrorRecord, type CallOutcome } from "./call-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import { recordBegin, recordEnd, rejectUnbegun } from "./record.ts";

type FunctionCall = Extract<OwnCall, { readonly type: "function" }>;

/** Runs the function within a slot, which is given back once the end of the call is recorded. */
export async function runTool(call: OpenCall, bound: FunctionCall): Promise<CallEnd> {
  const { agent, signal, effectPosition, planned } = call;
  const { clock, limiter } = agent.run;
  const askedAtMs = clock.nowMs();
  let releaseSlot: Release | undefined;
  agent.beginWork();
  try {
    const entered = limiter.tool(signal);
    releaseSlot = entered instanceof Promise ? await entered : entered;
    if (releaseSlot === undefined) return rejectUnbegun(call, askedAtMs);
    const begun = recordBegin(call, askedAtMs);
    const beginning = agent.persistence?.begin(effectPosition, planned, bound.tool);
    if (beginning !== undefined) await beginning;
    return await recordEnd(call, begun, await work(call, bound));
  } finally {
    releaseSlot?.();
    agent.endWork();
  }
}

const NO_WRAPS: ReturnType<HookSet["toolWraps"]> = Object.freeze([]);

/** Runs the body with the hooks around it, and returns its outcome. */
async function work(call: OpenCall, bound: FunctionCall): Promise<CallOutcome> {
  const { agent, signal, toolName, planned } = call;
  const { clock, recorder } = agent.run;
  const startedAtMs = clock.nowMs();
  const { timeoutMs } = planned.settings;
  const runtime = (): ToolRuntime => toolRuntime(call);
  const body = async (): Promise<unknown> =>
    timeoutMs === undefined
      ? await bound.use.run(call.context, runtime)
      : await runInTime(bound.use, call.context, runtime, timeoutMs);
  const wraps = agent.hooks.hasToolWraps ? agent.hooks.toolWraps(toolName) : NO_WRAPS;
  const timed = wraps.length === 0 ? undefined : new WrappedTime(clock);
  const working = recorder.within(
    call.scope,
    timed === undefined ? body : () => runWrapped(call, bound, wraps, () => timed.during(body)),
  );
  const bounded = await withinBounds(working, { ...agent.bounds, signal });
  const subtasks = call.close();
  const workedAtMs = clock.nowMs();
  const spans: readonly TimeSpan[] =
    timed === undefined ? spanOf("tool", startedAtMs, workedAtMs) : [...timed.hooks, ...timed.tool];
  // What an agent that only stops was given in time is a result; what the abort made the tool throw is none.
  const hasResult = bounded.type === "returned" && !agent.signal.aborted;
  if (signal.aborted && !hasResult) return { ...CANCELLED, spans };
  const outcome = workOutcome(toolName, bounded);
  const formatting = spanOf("formatting", workedAtMs, clock.nowMs());
  return { ...outcome, ...defined({ subtasks }), spans: [...spans, ...formatting] };
}

/** Runs the hooks around a body. */
function runWrapped(
  call: OpenCall,
  bound: FunctionCall,
  wraps: ReturnType<HookSet["toolWraps"]>,
  body: () => Promise<unknown>,
): Promise<unknown> {
  const { agent, effectPosition, toolName, position } = call;
  const callFor = (hookName: string): WrappedToolCall => ({
    toolName,
    callId: position.callId,
    arguments: bound.input,
    context: hookContext(agent, effectPosition.stepNumber, hookName),
  });
  return wrapped(wraps, callFor, body, agent.bounds);
}

function workOutcome(toolName: string, bounded: BoundedOutcome<unknown>): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    return bounded.type === "threw"
      ? thrownOutcome(toolName, bounded.error)
      : returnedOutcome(bounded.value);
  } catch (cause) {
    return thrownOutcome(toolName, cause);
  }
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
