// Problems that a viewer would report about the times of spans.

interface TimedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly startUs: number;
  readonly endUs: number;
  readonly events: readonly { readonly name: string; readonly atUs?: number }[];
}

/**
 * Returns spans without length, outside their parents, or with events outside themselves. A parent
 * in another process is not checked.
 */
export function timeFaults(spans: readonly TimedSpan[]): readonly string[] {
  const byId = new Map(spans.map((span) => [`${span.traceId} ${span.spanId}`, span]));
  return spans.flatMap((span) => {
    const { name, startUs, endUs, events, traceId, parentSpanId } = span;
    const parent = byId.get(`${traceId} ${parentSpanId}`);
    const shown = `${name} ${startUs}–${endUs}`;
    return [
      ...(startUs < endUs ? [] : [`${shown} has no length`]),
      ...(parent === undefined || (parent.startUs <= startUs && endUs <= parent.endUs)
        ? []
        : [`${shown} is not within ${parent.name} ${parent.startUs}–${parent.endUs}`]),
      ...events
        .filter(({ atUs = startUs }) => atUs < startUs || endUs < atUs)
        .map((event) => `${event.name} ${event.atUs} is not within ${shown}`),
    ];
  });
}
