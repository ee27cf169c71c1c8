import type { RunRowStatus } from "../../src/read-model/viewer-data.ts";

export function describeStatus(status: RunRowStatus): string {
  return status === "waiting" ? "waits for a process" : status.replace("_", " ");
}
