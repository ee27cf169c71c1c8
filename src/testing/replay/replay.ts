// Replay: a recorded run, once more, without a model and without its tools (R175, X25). The loop, the tree, the ledger and all policies do
// their work anew; what came from outside comes from the recording, in its order. Where they have another result, that is a divergence.

import { checkKeys } from "../../kernel/check.ts";
import { checkRole, type AgentRole } from "../../agent/agent-role.ts";
import type { OrchestratorOptions } from "../../orchestrator/tree/orchestrator-options.ts";
import { settingsOf } from "../../orchestrator/tree/settings.ts";
import type { RunResult } from "../../orchestrator/run/run-result.ts";
import { invalidLine, readSegments, type Recording } from "./recording.ts";
import { Replayer, type SegmentEnd } from "./replayer.ts";
import { beginningOf, type SegmentBegin } from "./segment.ts";

/** What the run had besides its recording: hooks, guards and the like are code, and run again. */
export interface ReplayOptions<out Output = unknown, in out Context = unknown> extends Pick<
  OrchestratorOptions<AgentRole<unknown, Context>>,
  "roles" | "hooks" | "guards" | "prices" | "sinks" | "hookTimeoutMs" | "graceMs"
> {
  /** The role of the root. */
  readonly role: AgentRole<Output, Context>;
  /** As in `StartOptions`, for what runs again: hooks, guards, sections, `instructions`. Tools do not. */
  readonly context?: Context;
}

/** What one process did of the run: from its start, a resume or a recovery to its end, a pause, or the death of the process. */
export interface PlayedSegment {
  readonly begin: SegmentBegin;
  /** `broken`: its process died, or the recording breaks off. */
  readonly end: SegmentEnd;
}

/** The result of a replay: that of the last segment that was played. */
export interface ReplayResult<out Output = unknown> extends RunResult<Output> {
  /** The segments that were played, in their order. */
  readonly played: readonly PlayedSegment[];
}

/**
 * Runs a recording again and gives its result, the same as that of the recorded run except for times and traces. A run that was paused, or
 * whose process died, is replayed segment by segment: each continues from what was persisted. A recording that breaks off is replayed up to there:
 * the result then is cancelled, since "The recording ends here.".
 *
 * Rejects with `replay_diverged` at the first thing that an agent does otherwise: `data` names segment, agent, step and field, what was
 * recorded and what came instead. Rejects with `invalid_journal`, `invalid_paused_run`, `invalid_answer` or `unsupported_version` for what
 * is no recording, with `invalid_option`, and with what `Orchestrator.start` and `resume` throw of roles. A `pausedRun` in the result is
 * there to be looked at: resume that of the recorded run instead.
 */
export function replay<Output, Context>(
  recording: Recording,
  options: ReplayOptions<Output, Context>,
): Promise<ReplayResult<Output>>;
export async function replay(recording: Recording, options: ReplayOptions): Promise<ReplayResult> {
  checkKeys("replay options", options, OPTIONS);
  const { role, context, ...means } = options;
  checkRole("role", role);
  settingsOf(means);
  // The loop loads them late. A replay must not wait for that.
  await import("../../agent/hooked-model-call.ts");
  await import("../../agent/phases/compact.ts");
  const segments = readSegments(recording);
  const records = segments.flatMap((segment) => segment.records);
  const played: PlayedSegment[] = [];
  let result: RunResult | undefined;
  for (const [index, segment] of segments.entries()) {
    const beginning = await beginningOf(segment);
    if (beginning === undefined) continue;
    const place = { number: index + 1, isLast: index === segments.length - 1 };
    const run = { code: { role, context }, means, beginning, segment, records };
    const replayer = new Replayer({ ...place, ...run });
    result = await replayer.play();
    const { session } = segment.records.findLast((record) => record.type === "result") ?? {};
    if (session !== undefined)
      result = { ...result, session: { execution: undefined, error: undefined, ...session } };
    played.push({ begin: beginning.type, end: replayer.end });
  }
  if (result === undefined) throw invalidLine(records.length, "breaks off before the run begins");
  return Object.freeze({ ...result, played });
}

const OPTIONS = "role context roles hooks guards prices hookTimeoutMs graceMs sinks".split(" ");
