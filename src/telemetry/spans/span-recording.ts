// What happens within a span, and how it ends.
// A span is an error only if what it shows failed: a spawn fails with its subagent, a parent does not. A pause is no error.

import type { EventBody } from "../../protocol/event.ts";
import type { SpanMoment, SpanNote } from "../../protocol/span-tree.ts";
import { boundedName, eventAttributes, setAttribute } from "../bounded/bounded-attributes.ts";
import { ERROR_TYPE, ESPALIER, LINK, SPAN_EVENT, SPAWN } from "../gen-ai-attributes.ts";
import type { OpenSpan } from "./open-span.ts";
import {
  failureOf,
  knownRole,
  knownToolName,
  lastNameIn,
  outcomeOf,
  setChild,
  setClosing,
  setDelegation,
  type SpanEnd,
} from "./span-attributes.ts";
import { showOutcome } from "./show-outcome.ts";
import { spanEventOf } from "./span-events.ts";
import { linkTo } from "./span-links.ts";
import { hrTimeOf } from "./span-maker.ts";

/** OpenTelemetry keeps 128 links of a span: some are left for others than these. */
const MOST_AWAITED = 100;

/** Something happened within a span that records. */
export function recordNote(open: OpenSpan, body: SpanNote, moment: SpanMoment): void {
  const { span, isToolCall } = open;
  if (isToolCall) describeDelegation(open, body);
  const event = spanEventOf(body, moment);
  if (event !== undefined)
    span.addEvent(event.name, eventAttributes(event.attributes), hrTimeOf(moment.atUs));
  if ("isBackground" in body && body.isBackground)
    (open.run.background ??= new Map()).set(body.childId, undefined);
  if (body.type === "subagent.ended") linkToAwaited(open, body);
  if (body.type === "run.resumed") countRecovery(open);
}

/** An agent that waited for a subagent in the background is linked to it, where it reads of its end. */
function linkToAwaited(open: OpenSpan, { childId }: EventBody<"subagent.ended">): void {
  const { span, run } = open;
  const awaited = run.background?.get(childId);
  if (run.background?.delete(childId) !== true || awaited === undefined) return;
  open.awaited += 1;
  span.setAttribute(ESPALIER.awaitsCount, open.awaited);
  if (open.awaited <= MOST_AWAITED) span.addLink(linkTo(LINK.awaits, awaited));
}

function countRecovery({ span, run }: OpenSpan): void {
  run.recoveries += 1;
  span.setAttribute(ESPALIER.runRecoveries, run.recoveries);
}

/** What becomes of a delegation is on the span of its call. A subtask has no call, only its own span. */
function describeDelegation(open: OpenSpan, body: SpanNote): void {
  setDelegation(open.span, body);
  if (body.type === "subagent.refused") rename(open, knownRole(body));
  if (body.type === "subagent.spawned" || body.type === "subagent.continued")
    rename(open, lastNameIn(body.childPath));
}

/** The subagent of a resumed delegation is known when it continues. */
export function recordResumedChild(
  open: OpenSpan,
  body: EventBody<"agent.resumed">,
  moment: SpanMoment,
): void {
  if (!open.span.isRecording()) return;
  const { agentId: childId, agentPath: childPath } = moment.scope;
  setChild(open.span, { role: body.role, childId, childPath });
  rename(open, lastNameIn(childPath));
}

/** Names a call after its subagent; after its tool, if it starts several. */
function rename(open: OpenSpan, subagent: string | undefined): void {
  const { opening, name } = open;
  const isDelegation = "kind" in opening && opening.kind === "delegation";
  open.spawns += 1;
  const target = isDelegation && open.spawns > 1 ? knownToolName(opening) : subagent;
  const words = [isDelegation ? SPAWN : name, ...(target === undefined ? [] : [target])];
  open.shownName = boundedName(words.join(" "));
  open.span.updateName(open.shownName);
}

/**
 * What a span shows is over. `crashed`: its process died. One that is `left` is not ended: the process that continues its run does that.
 */
export function recordSpanEnd(
  open: OpenSpan,
  end: SpanEnd | "left",
  { atUs }: Pick<SpanMoment, "atUs">,
): void {
  const { span } = open;
  open.closedAtUs = atUs;
  if (end === "left" || !span.isRecording()) return;
  const outcome = outcomeOf(end);
  if (outcome !== undefined) span.setAttribute(ESPALIER.outcome, outcome);
  if (typeof end !== "string") setClosing(span, end);
  if (outcome === undefined) return;
  showEnd(open, outcome);
  setAttribute(span, ERROR_TYPE, failureOf(end));
}

/** How something ended is shown wherever it continued. */
function showEnd({ span, shownName, onward }: OpenSpan, outcome: string): void {
  showOutcome(span, shownName, outcome);
  for (const { span: further, name } of onward) {
    further.setAttribute(ESPALIER.outcome, outcome);
    showOutcome(further, name, outcome);
  }
}

/** A span ends with the last one within it. If what it shows was over before, an event on it has the time. */
export function endSpan(open: OpenSpan, { atUs }: Pick<SpanMoment, "atUs">): void {
  const { span, closedAtUs, onward } = open;
  for (const further of onward) further.span.end(hrTimeOf(atUs));
  if (closedAtUs !== undefined && closedAtUs < atUs && span.isRecording())
    span.addEvent(SPAN_EVENT.over, {}, hrTimeOf(closedAtUs));
  span.end(hrTimeOf(atUs));
}
