// Replay: a recorded run, once more, without a model and without its tools (R175, X25). The loop, the tree, the ledger and all policies do
// their work anew; what came from outside comes from the recording, in its order. Where they come to something else, that is a divergence.

import { checkKeys, mismatch } from "../../kernel/check.ts";
import { isRecord } from "../../kernel/json.ts";
import { EspalierError } from "../../kernel/error.ts";
import { checkRole, type AgentRole } from "../../agent/agent-role.ts";
import type { OrchestratorOptions } from "../../orchestrator/orchestrator-options.ts";
import type { RunResult } from "../../orchestrator/run-result.ts";
import { recordsOf, type Recording } from "./recording.ts";
import { Replayer, type ReplayOrder } from "./replayer.ts";
import { scoreOf } from "./score.ts";

/** What the run had besides its roles: hooks, guards and the like are code, and run again. */
export interface ReplayOptions extends Pick<
  OrchestratorOptions,
  "roles" | "hooks" | "guards" | "sinks" | "hookTimeoutMs" | "graceMs"
> {
  /** The role of the root. */
  readonly role: AgentRole;
  /**
   * The order in which effects end that are under way at the same time. Default `recorded`. `shuffledBy`: another one, which follows from
   * this number; what depends on the order of agents is not compared then: ids of leases, and what is left of budgets.
   */
  readonly order?: ReplayOrder;
}

const FIELDS = ["role", "roles", "hooks", "guards", "sinks", "hookTimeoutMs", "graceMs", "order"];

/**
 * Runs a recording again and gives its result, the same as that of the recorded run except for times and traces. A recording of a run that
 * was paused, or whose process died, is replayed up to there: the result then is paused, or cancelled since "The recording ends here.".
 *
 * Rejects with `replay_diverged` at the first thing that an agent does otherwise: `data` names agent, step and field, what was recorded and
 * what came instead. Rejects with `invalid_journal` or `unsupported_version` for what is no recording, with `invalid_option`, and with what
 * `Orchestrator.start` throws of roles.
 */
export async function replay(recording: Recording, options: ReplayOptions): Promise<RunResult> {
  checkKeys("replay options", options, FIELDS);
  const { role, order = "recorded", ...means } = options;
  checkRole("role", role);
  checkOrder(order);
  const records = recordsOf(recording);
  const score = scoreOf(records);
  if (score === undefined)
    throw new EspalierError({
      code: "invalid_journal",
      message:
        "Expected a recording of at least the start of a run, got one that breaks off before. Record it anew.",
      data: { record: records.length },
    });
  return await new Replayer({ score, records, role, means, order }).play();
}

function checkOrder(order: unknown): void {
  if (order === "recorded") return;
  const seed = isRecord(order) ? order["shuffledBy"] : undefined;
  if (Number.isSafeInteger(seed) && Object.keys(isRecord(order) ? order : {}).length === 1) return;
  const expected = '"recorded" or { shuffledBy: a whole number }';
  throw mismatch("replay options.order", expected, order, "Leave it out for the recorded one.");
}
