// Laws for the reports of background subagents (X9, X10), and for who pays for model requests (B4),
// derived from the requests.

import type { ModelRequest } from "../../../src/model/model.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { law } from "./tree-law.ts";
import type { Sent } from "./tree-foreign.ts";
import type { Played, PlayedRun } from "./tree-fixture.ts";
import { childNameOf, roleAt, type World, type WorldRole } from "./tree-world.ts";

/**
 * Throws, naming the law, unless every agent got one report of every background subagent, and every
 * request was paid for.
 */
export function checkReports(world: World, played: Played, run: PlayedRun): void {
  if (!played.isTraced) return;
  checkPaid(played, run);
  for (const [index, event] of run.events.entries())
    if (event.type === "agent.ended") checkRecordedOnce(world, played, run, index);
}

/** B4: a request is sent between the grant of its agent's lease and its settlement. */
function checkPaid({ sent, runs }: Played, run: PlayedRun): void {
  const offset = runs
    .slice(0, runs.indexOf(run))
    .reduce((sum, { events }) => sum + events.length, 0);
  const held = new Map<string, number>();
  const requests = sent.filter(({ by }) => by?.runId === run.events[0]?.runId);
  let next = 0;
  for (let index = 0; index <= run.events.length; index += 1) {
    for (let one = requests[next]; one !== undefined && one.after - offset <= index; next += 1) {
      const { by } = one;
      const leases = by === null ? 0 : (held.get(by.agentId) ?? 0);
      law(leases === 1, () => `B4: ${by?.agentPath} asks a model with ${leases} leases`);
      one = requests[next + 1];
    }
    const event = run.events[index];
    if (event === undefined) break;
    const { agentId, type } = event;
    if (type === "budget.reserved") held.set(agentId, (held.get(agentId) ?? 0) + 1);
    if (type === "budget.settled" || type === "budget.released")
      held.set(agentId, (held.get(agentId) ?? 0) - 1);
  }
}

/**
 * The reports that an execution that has just ended read about the subagents that it had started in
 * the background.
 */
function checkRecordedOnce(world: World, { sent }: Played, run: PlayedRun, end: number): void {
  const { events, results } = run;
  const ended = events[end];
  if (ended?.type !== "agent.ended") return;
  const { agentPath, executionId } = ended;
  const role = roleAt(world, agentPath);
  if (role === undefined || isAltered(role)) return;
  const before = events.slice(0, end);
  const lives = before.filter((event) => isBeside(event) && event.executionId === executionId);
  if (lives.length === 0) return;
  const requests = newMessages(requestsOf(sent, executionId));
  // Results that arrive in the same step as the answer are not read, since the answer did not wait
  // for them.
  const agents = results.flatMap((result) => result.agents);
  const steps = agents.findLast((one) => one.executionId === executionId)?.steps ?? [];
  const lastWords = (steps.at(-1)?.tools.executions ?? []).map(({ text }) => text);
  const isAwaited = ended.status === "completed" && role.parentEndPolicy === "await";
  for (const path of new Set(lives.flatMap((event) => (isLife(event) ? [event.childPath] : [])))) {
    const name = childNameOf(path);
    const reports = requests.map(
      (messages) => messages.filter((one) => isReport(one, name)).length,
    );
    const own = before.filter((event) => isLife(event) && event.childPath === path);
    law(
      Math.max(0, ...reports) <= own.filter(isBeside).length,
      `X10: ${agentPath} has two reports of ${name}`,
    );
    const reported = reports.findIndex((count) => count > 0);
    const shown = requests.findIndex((messages) => messages.some((one) => isResult(one, name)));
    const isTold = reported >= 0 || shown >= 0 || lastWords.some((text) => givesResult(text, name));
    law(!isAwaited || isTold, `X9: ${agentPath} has answered and was never told of ${name}`);
    if (own.length > 1 || reported < 0 || shown < 0) continue;
    law(reported <= shown, `X10: ${agentPath} is told of ${name} once more`);
  }
}

/** Messages that are changed on the way, or omitted. */
function isAltered({ hooks, compacts }: WorldRole): boolean {
  return compacts || hooks.some(({ point }) => point === "afterTool" || point === "beforeModel");
}

/**
 * The part of each request that was not in the first one: the first is history, perhaps of another
 * agent.
 */
function newMessages(requests: readonly ModelRequest[]): readonly (readonly Message[])[] {
  const [first] = requests;
  return requests.map(({ messages }) => messages.slice(first?.messages.length ?? 0));
}

type Life = EspalierEvent<"subagent.spawned" | "subagent.continued">;

function isLife(event: EspalierEvent): event is Life {
  return event.type === "subagent.spawned" || event.type === "subagent.continued";
}

function isBeside(event: EspalierEvent): boolean {
  return isLife(event) && event.isBackground;
}

function isReport(message: Message, childName: string): boolean {
  const isMail = message.role === "user" && message.origin === "report";
  return isMail && message.text.startsWith(`${childName}, which`);
}

/** The whole result, as a wait or a cancel returns it; a receipt and a list have no outcome. */
function isResult({ role, text }: Message, childName: string): boolean {
  return role === "tool" && givesResult(text, childName);
}

function givesResult(text: string, childName: string): boolean {
  const lines = text.split("\n");
  return lines.some(
    (line) => line.includes('"outcome":') && line.includes(`"subagent":"${childName}"`),
  );
}

/** The requests of one agent's execution, in order. */
function requestsOf(sent: readonly Sent[], executionId: string | null): readonly ModelRequest[] {
  return sent.flatMap(({ by, request }) =>
    by !== null && by.executionId === executionId ? [request] : [],
  );
}
