// The events of a run that is written by hand, as a recorder would hand them out.

import { assertEvent, type EspalierEvent } from "../../src/protocol/event.ts";
import { RunScript } from "./telemetry/run-script.ts";

/** Numbers and locates the events of `tell`, and validates each against its schema. */
export function sampleEvents(tell: (run: RunScript) => void): readonly EspalierEvent[] {
  const run = new RunScript();
  tell(run);
  return recordedEvents(run);
}

/** Returns the events so far, each validated against its schema. */
export function recordedEvents(run: RunScript): readonly EspalierEvent[] {
  return run.drafts.map(({ atMs, scope, body }, index) => {
    const trace = { traceId: "0".repeat(32), spanId: "0".repeat(16) };
    const event: EspalierEvent = { seq: index + 1, atMs, ...scope, ...trace, ...body };
    assertEvent(event);
    return event;
  });
}
