// The words for how a run stands.

import type { RunRowStatus } from "../../src/view/viewer-data.ts";

export const STATUS_WORDS: Readonly<Record<RunRowStatus, string>> = {
  needs_you: "needs you",
  working: "working",
  lost: "lost",
  waiting: "waits for a process",
  paused: "paused",
  completed: "completed",
  stopped: "stopped",
  failed: "failed",
  cancelled: "cancelled",
  ended: "ended",
};
