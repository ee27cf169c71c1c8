// What the journal of a run says of one of its agents, as text: for the request of a step. Loaded when it is needed, since few programs do.

import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { Turns } from "../../kernel/throttle.ts";
import { AgentIdSchema, RunIdSchema, type AgentId, type RunId } from "../../protocol/ids.ts";
import { agentsIn, AgentSteps, definitionsIn } from "../durability/agent-steps.ts";
import { madeOfLine, withoutRecords } from "../durability/fold-journal.ts";
import { RECORDS_PER_TURN, RecordCodec } from "../durability/record-codec.ts";
import type { RequestSource } from "./rebuild-request.ts";

/** What a journal says of one agent, and the texts of all. `agentId` undefined: of the root. */
export async function readSource(
  journal: string,
  agentId: AgentId | undefined,
): Promise<RequestSource> {
  const reader = new RecordCodec();
  const definitions: Record<string, string> = {};
  let steps = agentId === undefined ? undefined : new AgentSteps(agentId);
  let runId: RunId | undefined;
  const take = (value: unknown): void => {
    runId ??= findRunId(value);
    for (const [hash, text] of Object.entries(definitionsIn(value)))
      definitions[hash] = String(text);
    const rootId = steps === undefined ? findRootId(value) : undefined;
    if (rootId !== undefined) steps = new AgentSteps(rootId);
    if (steps?.isOwn(value) === true) steps.take(deepFreeze(value));
  };
  const turns = new Turns(RECORDS_PER_TURN);
  let number = 0;
  for (const line of splitLines(journal)) {
    number += 1;
    await turns.did(madeOfLine(runId ?? unnamed(), number, () => reader.scan(line, take)));
  }
  if (runId === undefined) throw withoutRecords(unnamed());
  const state = madeOfLine(runId, number, () => steps?.stateIn(undefined));
  if (steps === undefined || state === undefined) return { agents: [], definitions };
  return { agents: [{ agentId: steps.agentId, agentPath: steps.agentPath, state }], definitions };
}

function* splitLines(journal: string): Generator<string> {
  for (let from = 0; from < journal.length;) {
    const end = journal.indexOf("\n", from);
    const line = journal.slice(from, end === -1 ? journal.length : end);
    if (line.trim() !== "") yield line;
    from = end === -1 ? journal.length : end + 1;
  }
}

/** Stands for the run of a journal that does not say its id. */
function unnamed(): RunId {
  return RunIdSchema().parse("unknown");
}

/** The run that a journal says it is of. */
function findRunId(value: unknown): RunId | undefined {
  const isHead = isRecord(value) && value["type"] === "run";
  return isHead ? RunIdSchema().safeParse(value["runId"]).data : undefined;
}

/** The first agent that a record speaks of. */
function findRootId(value: unknown): AgentId | undefined {
  if (!isRecord(value)) return undefined;
  const agent = value["type"] === "agent" ? value["agent"] : agentsIn(value["run"])[0];
  return AgentIdSchema().safeParse(isRecord(agent) ? agent["agentId"] : undefined).data;
}
