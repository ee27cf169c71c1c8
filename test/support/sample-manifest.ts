// The inherited context of a subagent in a hand-written run, and its attributes on the span.

import type { InheritanceRecord } from "../../src/protocol/context-manifest.ts";

export const SAMPLE_MANIFEST: InheritanceRecord = {
  messages: { count: 2, hash: "inherited" },
  injections: { count: 1, hash: "injected" },
  metadataKeys: ["repository"],
  siblingResults: [],
  results: ["reader#3"],
  failedAttempts: 1,
  parentConstraints: true,
  removedTools: [{ toolName: "write", rule: "denied", source: "lead" }],
  tightened: [{ field: "limits.maxDepth", requested: 5, granted: 3, source: "lead" }],
};

export const SAMPLE_MANIFEST_ATTRIBUTES = {
  "espalier.spawn.inherited_messages": 2,
  "espalier.spawn.inherited_hash": "inherited",
  "espalier.spawn.injected_messages": 1,
  "espalier.spawn.injected_hash": "injected",
  "espalier.spawn.metadata_keys": ["repository"],
  "espalier.spawn.results": ["reader#3"],
  "espalier.spawn.failed_attempts": 1,
  "espalier.spawn.parent_constraints": true,
  "espalier.spawn.removed_tools": ["write"],
  "espalier.spawn.removal_rules": ["denied"],
  "espalier.spawn.removal_sources": ["lead"],
  "espalier.spawn.tightened": ["limits.maxDepth"],
};
