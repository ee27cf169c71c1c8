// The OTLP endpoint of the span measurements, in a process of its own: `span-sink.ts <mode>`. Prints its address when it listens; says
// what arrived when it is sent anything; ends with its parent.

import { OtlpSink, type SinkMode } from "../test/support/otlp-sink.ts";

const MODES: readonly SinkMode[] = ["ok", "slow", "hang", "refuse", "unavailable"];
const mode = MODES.find((known) => known === process.argv[2]);
if (mode === undefined) throw new Error(`Expected one of ${MODES.join(", ")}.`);
const sink = await OtlpSink.open(mode);
process.on("message", () => {
  const count = (name: RegExp): number => sink.spans.filter((span) => name.test(span.name)).length;
  process.send?.({
    received: sink.spans.length,
    orphans: sink.orphans().length,
    runs: count(/^invoke_workflow /),
    agents: count(/^invoke_agent /),
  });
});
process.on("disconnect", () => process.exit(0));
process.stdout.write(`${sink.endpoint}\n`);
