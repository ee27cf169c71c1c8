// A service for each role, where traces are read in Jaeger: it colours and filters by service, and a
// tree of one service is one colour. Spans of other libraries stay with the service of the program.

import { resourceFromAttributes, type Resource } from "@opentelemetry/resources";

import { ESPALIER, SERVICE_NAME } from "../gen-ai-attributes.ts";
import { lastNameIn } from "../spans/span-attributes.ts";
import type { FinishedSpan } from "./any-sdk.ts";

/** Returns a function that copies a span of a run with its role as service: `survey/researcher`. */
export function servicePerRole(resource: Resource): (span: FinishedSpan) => FinishedSpan {
  const services = new Map<string, Resource>();
  return (span) => {
    const path = span.attributes[ESPALIER.agentPath];
    if (typeof path !== "string") return span;
    // The last name of `lead/researcher#2`, without its number.
    const role = lastNameIn(path).replace(/#[^#]*$/, "");
    const name = `${String(resource.attributes[SERVICE_NAME])}/${role}`;
    const service =
      services.get(role) ?? resource.merge(resourceFromAttributes({ [SERVICE_NAME]: name }));
    services.set(role, service);
    // Other processors may have the span too, so it does not change.
    const copy: unknown = Object.create(span, { resource: { value: service, enumerable: true } });
    return isSpan(copy) ? copy : span;
  };
}

function isSpan(value: unknown): value is FinishedSpan {
  return typeof value === "object" && value !== null && "spanContext" in value;
}
