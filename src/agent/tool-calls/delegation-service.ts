// What a delegation may do with the subagents of its agent: wait for them, write to them, cancel and continue them.

import { checkKeys, checkText } from "../../kernel/check.ts";
import type { SpawnOutcome } from "../../protocol/subagent.ts";
import type { ContinueRequest, SubagentService, WaitRequest } from "../../tools/tool-context.ts";
import type { DelegatedCall } from "../run-ports.ts";
import { taskAfterHooks, type Delegator } from "./hooked-task.ts";
import { TOO_LATE, type OpenCall } from "./open-call.ts";

/** What a call may do with the agent's subagents, until it ends. */
export function serviceWithin(call: OpenCall): SubagentService {
  const { agent } = call;
  const service = agent.run.subagents.serviceFor(agent, call.delegation());
  return Object.freeze({
    ...service,
    wait: async (request?: WaitRequest) => (call.isClosed ? TOO_LATE : await service.wait(request)),
    message: (childName: string, text: string) =>
      call.isClosed ? TOO_LATE : service.message(childName, text),
    cancel: async (childName: string, reason?: string) =>
      call.isClosed ? TOO_LATE : await service.cancel(childName, reason),
    continue: (request: ContinueRequest) => {
      checkContinue(request);
      return call.isClosed
        ? Promise.resolve(TOO_LATE)
        : call.take(continueWithHooks(call, request, call.delegation()));
    },
  });
}

function checkContinue(request: ContinueRequest): void {
  const fields = ["childName", "task", "background", "role", "resultsOf", "draft"];
  checkKeys("continue", request, fields);
  checkText("continue.childName", request.childName);
  checkText("continue.task", request.task);
}

/** Continues a subagent that has ended, with the task as hooks changed it. */
async function continueWithHooks(
  delegator: Delegator,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const { subagents } = agent.run;
  const known = agent.subagent(request.childName);
  if (known === undefined) return await subagents.continue(agent, request, call);
  const asked = { role: known.role.name, task: request.task };
  const task = await taskAfterHooks(delegator, asked, call);
  return await subagents.continue(agent, { ...request, task }, call);
}
