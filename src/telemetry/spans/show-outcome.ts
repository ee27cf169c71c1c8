import { SpanStatusCode, type Span } from "@opentelemetry/api";

import { boundedName } from "../bounded/bounded-attributes.ts";
import { ERROR_TYPE, FAILURE, SHOWN_AS } from "../gen-ai-attributes.ts";

/** Shows how something ended in the row of its span: by its status, or behind its name, as docs/jaeger.md has it. */
export function showOutcome(span: Span, name: string, outcome: string): void {
  const shownAs = SHOWN_AS[outcome];
  if (shownAs === "name") span.updateName(boundedName(`${name} (${outcome})`));
  if (shownAs === "error") span.setStatus({ code: SpanStatusCode.ERROR });
  if (outcome === FAILURE.crash) span.setAttribute(ERROR_TYPE, FAILURE.crash);
}
