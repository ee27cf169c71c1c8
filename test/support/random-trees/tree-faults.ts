// Faults around the agents of a world: ids, sinks and tracings.

import type { IdSource } from "../../../src/kernel/id-source.ts";
import { localTracing } from "../local-tracing.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { FOREIGN, Outside, ticks } from "./tree-foreign.ts";
import type { World } from "./tree-world.ts";

/**
 * Ids that count up, one of which fails. Those of the root are spared, so that every run begins.
 */
export function failingIds(failing: World["failingId"]): IdSource {
  const ids = sequentialIds();
  let minted = 0;
  return {
    next: (kind) => {
      const id = ids.next(kind);
      if (failing === undefined || kind === "run" || id.endsWith("_1")) return id;
      minted += 1;
      if (minted !== failing.count) return id;
      if (failing.how === "throws") throw FOREIGN[failing.count % FOREIGN.length];
      return kind === "agent" ? "agent_1" : id;
    },
  };
}

// Failing sinks and tracings are the same in every run, so that their warning is given once instead
// of thousands of times.
const THROWING: EventSink = {
  emit: () => {
    throw FOREIGN[4];
  },
};
const failsLater = (): unknown => ticks(1).then(() => Promise.reject(new Error("later")));
const FAILING_LATER: EventSink = { emit: failsLater };

export function faultySinks(sink: World["sink"]): readonly EventSink[] {
  if (sink === "none") return [];
  return [sink === "throws" ? THROWING : FAILING_LATER];
}

const fault = { at: "nothing", left: 0, local: localTracing(), outside: new Outside() };
const FAULTY_TRACING: Tracing = {
  traceEvent: (draft) => {
    fail("place");
    return fault.local.traceEvent(draft);
  },
  runInSpan: (scope, work) => {
    fail("within");
    const begun = fault.outside.scope.run(scope, () => fault.local.runInSpan(scope, work));
    fail("within, late");
    return begun;
  },
  getIds: (scope) => fault.local.getIds(scope),
};

function fail(at: string): void {
  if (fault.at !== at) return;
  fault.left -= 1;
  if (fault.left === 0) throw new Error("no tracing");
}

/** Passes the calling agent to the models unless the tracing fails. */
export function faultyTracing({ failsAt, call }: World["tracing"], outside: Outside): Tracing {
  fault.at = failsAt;
  fault.left = failsAt === "place" ? call : 1 + (call % 4);
  fault.local = localTracing();
  fault.outside = outside;
  return FAULTY_TRACING;
}
