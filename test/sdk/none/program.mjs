// No SDK at all: runs have ids, and no spans.

import { openTelemetry } from "espalier/otel";

import { runSmallTree } from "./small-tree.mjs";

await runSmallTree(openTelemetry());
