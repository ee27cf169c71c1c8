// Replays a run with all its pauses and deaths: every segment of it, to the same result.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Recording } from "../../../src/testing/replay/recording.ts";
import { replay, type ReplayResult } from "../../../src/testing/replay/replay.ts";
import { gist } from "../../fixtures/journals/play.ts";

/** The role and options of a process. */
export interface Means {
  readonly role: AgentRole;
  readonly options?: OrchestratorOptions;
}

/** The persisted records and result of a run. */
export interface Kept {
  readonly recording: Recording;
  /** `undefined` if the process died right after the end. */
  readonly result: RunResult | undefined;
}

export async function replaysToTheSame(
  { role, options = {} }: Means,
  { recording, result }: Kept,
): Promise<ReplayResult> {
  const { roles, hooks, guards, graceMs, hookTimeoutMs } = options;
  const again = await replay(recording, {
    role,
    ...(roles === undefined ? {} : { roles }),
    ...(hooks === undefined ? {} : { hooks }),
    ...(guards === undefined ? {} : { guards }),
    ...(graceMs === undefined ? {} : { graceMs }),
    ...(hookTimeoutMs === undefined ? {} : { hookTimeoutMs }),
  });
  if (result !== undefined) expect(gist(again)).toEqual(gist(result));
  const lives = recording.split("\n").filter((line) => /^\{"type":"(?:run|recovered)"/u.test(line));
  expect(again.segments.length, "every segment is played").toBe(lives.length);
  return again;
}
