// SDK 2.x through the set-up that espalier brings along.

import { trace } from "@opentelemetry/api";
import { setUpNodeTracing } from "espalier/otel/node";

import { runSmallTree } from "./small-tree.mjs";

const node = setUpNodeTracing({ serviceName: "v2" });
await runSmallTree(node.tracing, () => trace.getActiveSpan()?.spanContext().spanId);
await node.shutdown();
