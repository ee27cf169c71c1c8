// Links from a span to one that it does not stand below: the run that it continues from, the subagent that it waited for, the agent that wrote to it.
// Attributes of links are lost in Jaeger, so what a link means stands on the span, too. Pure.

import {
  TraceFlags,
  type Attributes,
  type Link,
  type Span,
  type SpanContext,
} from "@opentelemetry/api";

import { parseTraceparent } from "../../kernel/trace-ids.ts";
import type { SpanOpening } from "../../protocol/span-tree.ts";
import { ESPALIER, LINK } from "../gen-ai-attributes.ts";

/** The earlier run, or the earlier part of this run, from which a run continues. None, if a sampler had left that out. */
export function originOf(body: SpanOpening): readonly Link[] {
  if (body.type === "run.resumed") {
    const { previousTraceId: traceId, previousSpanId: spanId, wasSampled } = body;
    return linksTo(LINK.resumes, traceId, spanId, wasSampled);
  }
  if (body.type !== "run.started" || body.forkedFrom === undefined) return [];
  const { traceId, spanId, isSampled } = body.forkedFrom;
  return linksTo(LINK.forkedFrom, traceId, spanId, isSampled);
}

function linksTo(
  meaning: string,
  traceId: string,
  spanId: string | undefined,
  isSampled: boolean | undefined,
): readonly Link[] {
  if (spanId === undefined || isSampled !== true) return [];
  return [linkTo(meaning, remoteSpan({ traceId, spanId }))];
}

/** How a span names another one. */
export interface Reference {
  readonly link: Link;
  readonly attributes: Attributes;
}

/** The first span of a further trace names the one that it continues from. */
export function continuedFrom(before: SpanContext): Reference {
  return {
    link: linkTo(LINK.continuesFrom, before),
    attributes: { [ESPALIER.continuesFromTraceId]: before.traceId },
  };
}

/** A span names the one in which it, or what it called, continues. */
export function continueIn(span: Span, next: SpanContext): void {
  span
    .addLink(linkTo(LINK.continuesIn, next))
    .setAttribute(ESPALIER.continuesInTraceId, next.traceId);
}

/** `meaning`: one of `LINK`. */
export function linkTo(meaning: string, context: SpanContext): Link {
  return { context, attributes: { [ESPALIER.linkType]: meaning } };
}

/** The span that the caller of a run named. */
export function namedCaller(body: SpanOpening): SpanContext | undefined {
  if (!("traceparent" in body) || body.traceparent === undefined) return undefined;
  const named = parseTraceparent(body.traceparent);
  if (named === undefined) return undefined;
  return remoteSpan(named, named.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE);
}

/** A span that this process knows by its ids alone. */
export function remoteSpan(
  ids: { readonly traceId: string; readonly spanId: string },
  traceFlags = TraceFlags.SAMPLED,
): SpanContext {
  const { traceId, spanId } = ids;
  return { traceId, spanId, traceFlags, isRemote: true };
}
