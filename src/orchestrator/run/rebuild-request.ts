// What a model was asked in any step of a run at rest, from its stored form alone (R173). Pure.

import {
  missingOfStep,
  persistedRequest,
  type RebuiltRequest,
} from "../../agent/persisted-request.ts";
import type { AgentState } from "../../agent/agent-state.ts";
import { contextsOf } from "../../agent/shown-messages.ts";
import { checkKeys, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { endOfTurn } from "../../kernel/throttle.ts";
import type { Definitions } from "../../protocol/definition.ts";
import { AgentIdSchema, RunIdSchema, type AgentId, type RunId } from "../../protocol/ids.ts";
import { agentsIn, AgentSteps, definitionsIn } from "../durability/agent-steps.ts";
import { invalidJournal, withoutRecords } from "../durability/fold-journal.ts";
import { JournalReader } from "../durability/journal-reader.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restoredFrom } from "../durability/restored-run.ts";

/** Which request is meant. */
export interface RebuildOptions {
  /** From 1; of the last execution of the agent. The step that a pause has left open counts. */
  readonly stepNumber: number;
  /** Default: the root. */
  readonly agentId?: AgentId;
}

/**
 * The exact request of a step, from a run at rest: its messages with what hooks, sections and notices made of them, the tools that were
 * offered, and the parameters. `stored`: the `pausedRun` of a result or the `snapshot()` of a run, or its JSON text. Frozen. Nothing of
 * the roles is needed, and nothing runs.
 *
 * @throws EspalierError `unsupported_version` or `invalid_paused_run` if it cannot be read, or a text of the step is not in it;
 * `unknown_agent`; `invalid_option` if the agent took no such step in its last execution.
 */
export function rebuildRequest(
  stored: PausedRun | string,
  options: RebuildOptions,
): RebuiltRequest {
  checkKeys("rebuild options", options, FIELDS);
  return rebuiltFrom(restoredFrom(parsePausedRun(stored)), options);
}

/**
 * The same from the journal of a run, as `recordingOf` gives it: of a run that has ended, that is paused, or whose process died.
 *
 * Rejects with `unsupported_version` or `invalid_journal` if it cannot be read, and with what `rebuildRequest` throws.
 */
export async function rebuildRecordedRequest(
  journal: string,
  options: RebuildOptions,
): Promise<RebuiltRequest> {
  checkKeys("rebuild options", options, FIELDS);
  if (typeof journal !== "string")
    throw mismatch("journal", "text", journal, "Hand in what recordingOf gave.");
  return rebuiltFrom(await sourceIn(journal, options.agentId), options);
}

/** Records that are read in one turn of the event loop, so that other work of the process continues meanwhile. */
const RECORDS_PER_TURN = 200;

/** What a journal says of one agent, and the texts of all. `agentId` undefined: of the root. */
async function sourceIn(journal: string, agentId: AgentId | undefined): Promise<RequestSource> {
  const reader = new JournalReader();
  const definitions: Record<string, string> = {};
  let steps = agentId === undefined ? undefined : new AgentSteps(agentId);
  let runId: RunId | undefined;
  const take = (value: unknown): void => {
    runId ??= runIdIn(value);
    for (const [hash, text] of Object.entries(definitionsIn(value)))
      definitions[hash] = String(text);
    const rootId = steps === undefined ? rootIn(value) : undefined;
    if (rootId !== undefined) steps = new AgentSteps(rootId);
    steps?.take(value);
  };
  let [number, count] = [0, 0];
  for (const line of linesIn(journal)) {
    number += 1;
    try {
      reader.scan(line, (value) => {
        count += 1;
        take(value);
      });
    } catch (cause) {
      const isKnown = EspalierError.is(cause) && cause.code === "unsupported_version";
      throw isKnown ? cause : invalidJournal(runId ?? UNKNOWN, number, cause);
    }
    if (count < RECORDS_PER_TURN) continue;
    count = 0;
    await endOfTurn();
  }
  if (runId === undefined) throw withoutRecords(UNKNOWN);
  const state = steps?.stateIn(undefined);
  const agents = steps === undefined || state === undefined ? [] : [{ ...steps, state }];
  return { agents, definitions };
}

function* linesIn(journal: string): Generator<string> {
  for (let from = 0; from < journal.length;) {
    const end = journal.indexOf("\n", from);
    const line = journal.slice(from, end === -1 ? journal.length : end);
    if (line.trim() !== "") yield line;
    from = end === -1 ? journal.length : end + 1;
  }
}

const FIELDS = ["stepNumber", "agentId"];

const UNKNOWN = RunIdSchema.parse("unknown");

/** The run that a journal says it is of. */
function runIdIn(value: unknown): RunId | undefined {
  const isHead = isRecord(value) && value["type"] === "run";
  return isHead ? RunIdSchema.safeParse(value["runId"]).data : undefined;
}

/** The first agent that a record speaks of. */
function rootIn(value: unknown): AgentId | undefined {
  if (!isRecord(value)) return undefined;
  const agent = value["type"] === "agent" ? value["agent"] : agentsIn(value["run"])[0];
  return AgentIdSchema.safeParse(isRecord(agent) ? agent["agentId"] : undefined).data;
}

interface RequestSource {
  readonly agents: readonly {
    readonly agentId: AgentId;
    readonly agentPath: string;
    readonly state: AgentState;
  }[];
  readonly definitions: Definitions;
}

function rebuiltFrom(
  { agents, definitions }: RequestSource,
  { stepNumber, agentId }: RebuildOptions,
): RebuiltRequest {
  const agent = agentId === undefined ? agents[0] : agents.find((one) => one.agentId === agentId);
  if (agent === undefined)
    throw new EspalierError({
      code: "unknown_agent",
      message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take it from an event.`,
      data: { agentId: String(agentId) },
    });
  checkStep(agent, stepNumber);
  const rebuilt = persistedRequest(agent.state, stepNumber, (hash) =>
    Object.hasOwn(definitions, hash) ? definitions[hash] : undefined,
  );
  if (rebuilt !== undefined) return deepFreeze(rebuilt);
  throw missingOfStep(agent.agentPath, stepNumber);
}

function checkStep(
  { agentPath, state }: RequestSource["agents"][number],
  stepNumber: number,
): void {
  const steps = contextsOf(state).length;
  if (Number.isSafeInteger(stepNumber) && stepNumber >= 1 && stepNumber <= steps) return;
  const expected =
    steps === 0
      ? `left alone, since ${agentPath} took no step`
      : `a step of ${agentPath} (1 to ${steps})`;
  throw mismatch("rebuild options.stepNumber", expected, stepNumber, "Count from 1.");
}
