// The body of a function tool, in its slot, with the hooks around it.

import { runBounded, type BoundedOutcome } from "../../kernel/cancel.ts";
import { wrapped } from "../../hooks/run-chain.ts";
import { spanOf, type TimeSpan } from "../../protocol/step-timing.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { ToolRetryNote, ToolRuntime } from "../../tools/tool-runtime.ts";
import { outcomeOf as textOutcomeOf } from "../../tools/returned-result.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import { toolEffectName } from "../effect-names.ts";
import type { CallEnd } from "../effects.ts";
import { hookContext } from "../hook-bounds.ts";
import { WrappedTime } from "../wrapped-time.ts";
import type { CallOutcome } from "./call-outcome.ts";
import { CANCELLED, thrownOutcome, toolErrorRecord } from "./failed-outcome.ts";
import { isRepeatable } from "./kept-permit.ts";
import type { OpenCall } from "./open-call.ts";
import { perform } from "./record.ts";
import { rejectUnbegun } from "./reject.ts";

type FunctionCall = Extract<OwnCall, { readonly type: "function" }>;

export async function runTool(call: OpenCall, bound: FunctionCall): Promise<CallEnd> {
  const { agent } = call;
  const askedAtMs = agent.run.clock.nowMs();
  agent.time.beginWork();
  try {
    const end = await agent.run.limiter.tool(call.signal, () =>
      perform(call, () => run(call, bound), askedAtMs),
    );
    return end ?? rejectUnbegun(call, askedAtMs);
  } finally {
    agent.time.endWork();
  }
}

async function run(call: OpenCall, bound: FunctionCall): Promise<CallOutcome> {
  const { agent, place, planned, toolName } = call;
  if (agent.log !== undefined && !isRepeatable(bound.tool))
    await agent.log.begin(toolEffectName(place, planned));
  const wraps = agent.hooks.toolWraps(toolName);
  const timed = wraps.length === 0 ? undefined : new WrappedTime(agent.run.clock);
  const body = (): Promise<unknown> => runBody(call, bound);
  const work =
    timed === undefined
      ? body
      : (): Promise<unknown> => {
          const callFor = (hookName: string) => ({
            toolName,
            callId: call.position.callId,
            arguments: bound.input,
            context: hookContext(agent, place.stepNumber, hookName),
          });
          return wrapped(wraps, callFor, () => timed.during(body), agent.bounds);
        };
  const startedAtMs = agent.run.clock.nowMs();
  const bounds = { ...agent.bounds, signal: call.signal };
  const bounded = await runBounded(() => agent.within(call.position, work), bounds);
  const subtasks = call.close();
  const workedAtMs = agent.run.clock.nowMs();
  const spans: readonly TimeSpan[] =
    timed === undefined ? spanOf("tool", startedAtMs, workedAtMs) : [...timed.hooks, ...timed.tool];
  // What an agent that only stops was given in time is a result; what the abort made the tool throw is none.
  const hasResult = bounded.type === "returned" && !agent.signal.aborted;
  if (call.signal.aborted && !hasResult) return { ...CANCELLED, spans };
  const outcome = outcomeOf(toolName, bounded);
  const formatting = spanOf("formatting", workedAtMs, agent.run.clock.nowMs());
  return { ...outcome, subtasks, spans: [...spans, ...formatting] };
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
    startSignal: call.signal,
    run,
    noteRetry: ({ attempt, error, delayMs }: ToolRetryNote) => {
      if (!call.isClosed)
        call.emit({
          type: "tool.retried",
          toolName,
          attempt,
          error: toolErrorRecord(error),
          delayMs,
        });
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
function returnedOutcome(result: unknown): CallOutcome {
  const { text, structured, attachments } = textOutcomeOf(result);
  return {
    type: "succeeded",
    text,
    ...(structured === undefined ? {} : { structured }),
    ...(attachments.length === 0 ? {} : { attachments }),
  };
}
