// A service of its own for each role, where traces are read in Jaeger: it colours and filters by service, and a tree of one
// service is one colour. Spans of other libraries stay with the service of the program.

import { resourceFromAttributes, type Resource } from "@opentelemetry/resources";

import { ESPALIER, SERVICE_NAME } from "../gen-ai-attributes.ts";
import { lastNameIn } from "../spans/span-attributes.ts";
import type { AnySpanExporter, FinishedSpan } from "./any-sdk.ts";

/** Exports spans of runs as if each role were a service: `survey/researcher`. `resource`: of the program. */
export function servicePerRole(exporter: AnySpanExporter, resource: Resource): AnySpanExporter {
  const services = new Map<string, Resource>();
  const serviceOf = (role: string): Resource => {
    const name = `${String(resource.attributes[SERVICE_NAME])}/${role}`;
    const known =
      services.get(role) ?? resource.merge(resourceFromAttributes({ [SERVICE_NAME]: name }));
    services.set(role, known);
    return known;
  };
  const shown = (span: FinishedSpan): FinishedSpan => {
    const role = roleOf(span);
    return role === undefined ? span : withResource(span, serviceOf(role));
  };
  return {
    export: (spans, done) => exporter.export(spans.map(shown), done),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

/** The last name of `lead/researcher#2`, without its number. */
function roleOf({ attributes }: FinishedSpan): string | undefined {
  const path = attributes[ESPALIER.agentPath];
  return typeof path === "string" ? lastNameIn(path).replace(/#[^#]*$/, "") : undefined;
}

/** The span itself is left as it is: other processors may have it, too. */
function withResource(span: FinishedSpan, resource: Resource): FinishedSpan {
  const shown: unknown = Object.create(span, { resource: { value: resource, enumerable: true } });
  return isSpan(shown) ? shown : span;
}

function isSpan(value: unknown): value is FinishedSpan {
  return typeof value === "object" && value !== null && "spanContext" in value;
}
