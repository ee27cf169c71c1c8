// Every way in which a run settles, with one script each. The name of a script is the expected
// reason.

import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { transform } from "../../src/hooks/hook.ts";
import { ModelError } from "../../src/model/model-error.ts";
import type { StartOptions } from "../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { hasToolCall, isStepCount } from "../../src/policies/stop-conditions.ts";
import { asks, says } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";

/** A run that rests, with its fixture. */
export interface Rested {
  readonly fixture: Fixture;
  readonly result: RunResult;
}

export interface Ending {
  readonly status: RunResult["status"];
  readonly code: string;
  /** Runs it. Each time on a fixture of its own. */
  play(): Promise<Rested>;
}

const work = asks("work", {});
const forever = [work, work, work, work];

interface Play {
  readonly role: () => AgentRole;
  readonly options?: StartOptions;
  /** Done before anything has begun. */
  readonly first?: (run: Run) => void;
  /** Done once everything waits. */
  readonly act?: (run: Run, fixture: Fixture) => void;
}

function ending(
  [status, code]: readonly [Ending["status"], string],
  { role, options, first, act }: Play,
): Ending {
  const play = async (): Promise<Rested> => {
    const fixture = newFixture();
    const run = fixture.start(role(), "Do it.", options);
    first?.(run);
    if (act !== undefined) {
      await flushEventLoop();
      act(run, fixture);
    }
    return { fixture, result: await fixture.outcome(run) };
  };
  return { status, code, play };
}

const misfits = [1, 2, 3, 4].map((wrong) => asks("count", { wrong }));

const PRICE = { inputUsdPerMillion: 1_000_000, outputUsdPerMillion: 1_000_000 };
const worker = (): AgentRole => soloist(forever, { tools: [spyTool("work")] }).role;
const waiting = (): AgentRole => soloist([says("late", { after: latch().opened })]).role;

const counter = defineTool({
  name: "count",
  description: "Counts.",
  inputSchema: z.object({ to: z.number() }),
  execute: ({ to }) => to,
});
const failing = spyTool("work", () => {
  throw new Error("No disk.");
});

export const ENDINGS: readonly Ending[] = [
  ending(["failed", "error"], {
    role: () =>
      soloist([{ error: new ModelError({ code: "model_unauthorized", message: "No." }) }]).role,
  }),
  ending(["stopped", "stop_requested"], {
    role: () => soloist([work], { tools: [spyTool("work")], hooks: [stopping()] }).role,
  }),
  ending(["cancelled", "cancelled"], { role: waiting, act: (run) => void run.cancel() }),
  ending(["stopped", "input_refused"], {
    role: () => {
      const refuse = transform("userInput", () => ({ refuse: "Not that." }));
      return soloist([says("never")], { hooks: [refuse] }).role;
    },
  }),
  ending(["stopped", "step_limit"], { role: worker, options: { budget: { steps: 2 } } }),
  ending(["stopped", "token_limit"], { role: worker, options: { budget: { totalTokens: 15 } } }),
  ending(["stopped", "time_limit"], {
    role: waiting,
    options: { budget: { timeMs: 10 } },
    act: (_run, { clock }) => clock.advance(10),
  }),
  ending(["stopped", "cost_limit"], {
    role: () => soloist(forever, { tools: [spyTool("work")] }, { price: PRICE }).role,
    options: { budget: { costUsd: 20 } },
  }),
  ending(["stopped", "tool_call_limit"], { role: worker, options: { budget: { toolCalls: 1 } } }),
  ending(["stopped", "retry_limit"], {
    role: () => soloist(misfits, { tools: [counter] }).role,
  }),
  ending(["stopped", "error_budget"], {
    role: () =>
      soloist(forever, { tools: [failing], errorBudget: { maxConsecutiveErrors: 1 } }).role,
  }),
  ending(["stopped", "blocked"], {
    role: () => {
      const guards = [toolGuard(() => ({ type: "deny", reason: "Not here." }))];
      const errorPolicy = { blockedPolicy: "stop" } as const;
      return soloist(forever, { tools: [spyTool("work")], guards, errorPolicy }).role;
    },
  }),
  ending(["stopped", "tool_called"], {
    role: () =>
      soloist(forever, { tools: [spyTool("work")], stopWhen: [hasToolCall("work")] }).role,
  }),
  ending(["stopped", "step_count"], {
    role: () => soloist(forever, { tools: [spyTool("work")], stopWhen: [isStepCount(1)] }).role,
  }),
  ending(["stopped", "found_enough"], {
    role: () => {
      const reason = { code: "found_enough", message: "Found.", data: { found: 3 } };
      return soloist([says("never")], { stopWhen: [() => reason] }).role;
    },
  }),
  ending(["stopped", "finish_reason"], {
    role: () => soloist([says("half a", { finishReason: "length" })]).role,
  }),
  ending(["completed", "completed"], { role: () => soloist([says("done")]).role }),
  ending(["paused", "input_required"], {
    role: () =>
      soloist([work], { tools: [spyTool("work", () => "done", { needsApproval: true })] }).role,
  }),
  ending(["paused", "pause_requested"], {
    role: () => soloist([says("never")]).role,
    first: (run) => run.requestPause(),
  }),
];

function stopping() {
  return transform("afterTool", (_input, { requestStop }) => requestStop("Seen enough."));
}
