// A run from its first event to its end: the handle on it, and what opens it.

import { EVENT_SCHEMA_VERSION, type EspalierEvent, type EventBody } from "../../protocol/event.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { AgentNode } from "../tree/agent-node.ts";
import { concluded, lateEnds, resultOf } from "./conclude.ts";
import { pausedRunOf, type PauseFacts } from "../durability/pause-run.ts";
import { Run } from "./run.ts";
import type { RunShared } from "../tree/run-shared.ts";
import { keepSession } from "../sessions/sessions.ts";
import { live, reviveDetached, settleDetached } from "../tree/supervisor.ts";
import { grantBudget } from "../tree/budget-events.ts";

/** How a run opens: its first event, and what is recorded right after it. */
export interface Opening {
  readonly event: () => EventBody<"run.started" | "run.resumed">;
  /** What has to be waited for before anything is told; see `RunParts.allowed`. */
  readonly allowed?: () => Promise<void> | undefined;
  /** What has to be done before the first event. */
  readonly before?: () => void;
  readonly afterwards?: () => void;
}

export const NO_HISTORY = { pauses: 0, answered: [] } as const;
export const AS_ROOT = { spawnCallId: undefined, spawnStepId: undefined } as const;

const nothing = (): undefined => undefined;

/** The handle on a run, from its beginning or from a rest. */
export function leadRun(
  scope: RunShared,
  root: AgentNode,
  history: Pick<PauseFacts, "pauses" | "answered">,
  { event, allowed = nothing, before = nothing, afterwards = nothing }: Opening,
): Run {
  const { runId, tree, recorder } = scope;
  const place = { ...root.identity, executionId: null, stepId: null, callId: null };
  let trace: Pick<PauseFacts, "traceId" | "spanId" | "isSampled"> = { traceId: "", spanId: "" };
  const tried = new Set<AgentNode>();
  const mismatches = new MismatchWatch();
  recorder.subscribe(mismatches);
  return new Run({
    runId,
    root,
    tree,
    journal: scope.journal,
    subscribe: (sink) => recorder.subscribe(sink),
    allowed,
    begin: () => {
      before();
      const { traceId, spanId, isSampled } = recorder.record(place, event());
      trace = { traceId, spanId, ...(isSampled === undefined ? {} : { isSampled }) };
      afterwards();
      return root.hasEnded ? undefined : live(scope, root);
    },
    grant: (node, grant) => grantBudget(scope, node, grant),
    goOn: () => {
      if (root.hasEnded) return undefined;
      const late = lateEnds(tree).filter((node) => !tried.has(node));
      if (late.length === 0) return undefined;
      for (const node of late) tried.add(node);
      reviveDetached(scope, late);
      return live(scope, root);
    },
    detachedAtRest: () => (root.hasEnded ? settleDetached(scope) : tree.detachedAtRest()),
    leave: () => recorder.leave(place),
    scriptMismatch: () => mismatches.first,
    keepSession: () => keepSession(scope, root),
    releaseSession: () => scope.session?.release(),
    conclude: () => concluded(scope, root, { ...history, ...trace }),
    resultSoFar: () => resultOf(scope, trace.traceId),
    snapshot: () => pausedRunOf(scope, { ...history, pauses: history.pauses + 1, ...trace }),
  });
}

/** Looks out for calls that a `ScriptedModel` did not expect: errors of the test, which no agent, hook or summary may get over. */
class MismatchWatch implements EventSink {
  first: EspalierError | undefined;

  take(event: EspalierEvent): void {
    if (event.type !== "model.failed" || event.error.data["error"] !== "script_mismatch") return;
    const { agentPath, error } = event;
    const message = `${agentPath}: ${error.message}`;
    this.first ??= new EspalierError({ code: "script_mismatch", message, data: { agentPath } });
  }
}

/** The first event of a run. */
export function started(scope: RunShared, root: AgentNode): EventBody<"run.started"> {
  const { tree, ledger } = scope;
  return {
    type: "run.started",
    schemaVersion: EVENT_SCHEMA_VERSION,
    role: root.role.name,
    task: root.task,
    limits: tree.limits,
    budget: ledger.remaining(root.identity.agentId),
    ...sessionOf(scope),
  };
}

/** The session of a run, for the event with which it begins. */
export function sessionOf({ session }: RunShared): { readonly sessionId?: SessionId } {
  return session === undefined ? {} : { sessionId: session.ref.sessionId };
}
