// A program of a few milliseconds that traces two runs, for `node-setup-program.test.ts`. It is
// started as its own process, with the endpoint in its environment, and prints the delivery counts
// of its spans.

import { setUpNodeTracing } from "../../../src/telemetry/node-setup.ts";
import { placeAll } from "./recorded-spans.ts";
import { RunScript } from "./run-script.ts";

const run = new RunScript();
run.started();
run.root.lives();
run.ended();

const node = setUpNodeTracing();
placeAll(node.tracing, run.drafts);
await node.flush({ timeoutMs: 100 });
placeAll(node.tracing, run.drafts);
const report = await node.flush({ timeoutMs: 500 });
process.stdout.write(JSON.stringify(report));
