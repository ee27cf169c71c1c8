import type { RunRowStatus } from "../../src/view/viewer-data.ts";

export function statusWords(status: RunRowStatus): string {
  return status === "waiting" ? "waits for a process" : status.replace("_", " ");
}
