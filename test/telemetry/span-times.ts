// What a viewer would complain of in the times of spans.

interface TimedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly startUs: number;
  readonly endUs: number;
  readonly events: readonly { readonly name: string; readonly atUs?: number }[];
}

/** Spans without length, outside their parents, or with events outside themselves. A parent in another process is not looked for. */
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
