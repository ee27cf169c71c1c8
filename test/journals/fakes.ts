// Fakes: the fake models and tools of recorded stories, and what is played with them. In a replay all of them are dead: a
// model or a tool that is called says so.

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { waitForTurnEnd } from "../../src/kernel/throttle.ts";
import type { Model } from "../../src/model/model.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/settings.ts";
import type { StartOptions } from "../../src/orchestrator/run/start-options.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import type { ReplayOptions } from "../../src/testing/replay/replay.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import type { ToolContext } from "../../src/tools/tool-context.ts";
import { countedTool, thinker, type Sight, type Thought } from "../journal/thinkers.ts";

type Execute = (
  input: { readonly thing: string },
  context: ToolContext,
) => Promise<string> | string;

/** Makes models and tools. */
export class Fakes {
  /** What was called though it is dead. */
  readonly calls: string[] = [];
  readonly isAlive: boolean;
  /** Time, by hand: for tools that take some. Of dead fakes it stands still. */
  readonly clock: ManualClock;

  /** `clock`: by default one that shows a second after the epoch at first. */
  constructor({
    isAlive,
    clock = new ManualClock(1_000),
  }: {
    readonly isAlive: boolean;
    readonly clock?: ManualClock | undefined;
  }) {
    this.isAlive = isAlive;
    this.clock = clock;
  }

  model(name: string, think: (sight: Sight) => Thought, more: Partial<Model> = {}): Model {
    const living = thinker(name, think);
    return { ...living, ...more, generate: this.#of(`model ${name}`, living.generate) };
  }

  tool(
    name: string,
    execute: Execute = ({ thing }) => `${name} of ${thing}`,
    more: Parameters<typeof countedTool>[3] = {},
  ): FunctionTool {
    return countedTool(new Map(), name, this.#of(`tool ${name}`, execute), more);
  }

  /** A tool that ends after so many turns of the event loop. */
  slow(name: string, turns: number, more: Parameters<typeof countedTool>[3] = {}): FunctionTool {
    const execute: Execute = async ({ thing }, { signal }) => {
      for (let turn = 0; turn < turns && !signal.aborted; turn += 1) await waitForTurnEnd();
      return `${name} of ${thing}`;
    };
    return this.tool(name, execute, more);
  }

  /** A tool that ends when its agent ends. */
  endless(name: string): FunctionTool {
    return this.tool(name, ({ thing }, { signal }) => {
      if (signal.aborted) return `${thing} is over`;
      return new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve(`${thing} is over`), { once: true }),
      );
    });
  }

  #of<Work extends (...asked: never[]) => unknown>(name: string, work: Work): Work;
  #of(name: string, work: (...asked: unknown[]) => unknown) {
    if (this.isAlive) return work;
    return () => {
      this.calls.push(name);
      throw new Error(`${name} was called in a replay.`);
    };
  }
}

/** What is played. Made anew for the replay. */
export interface Play {
  readonly role: AgentRole;
  /** Default: "Go." */
  readonly task?: string;
  /** What the replay is given, too. */
  readonly means?: Omit<ReplayOptions, "role" | "order" | "context">;
  /** What it is not. */
  readonly options?: OrchestratorOptions;
  readonly start?: StartOptions;
  /** What the caller does, each once, when something has happened. */
  readonly acts?: readonly Act[];
  /** What the caller does with the run itself. */
  readonly drive?: (run: Run, clock: ManualClock) => Promise<void>;
}

export interface Act {
  readonly when: (event: EspalierEvent) => boolean;
  readonly act: (run: Run, clock: ManualClock) => void;
  /** In the midst of what happens; default: when everything has come to a stand. */
  readonly isAtOnce?: boolean;
}

export type Build = (fakes: Fakes) => Play;

/** Calls back for what is due, each act once. */
export function listener(play: Play, run: () => Run | undefined, clock: ManualClock) {
  const left = [...(play.acts ?? [])];
  return {
    left,
    emit: (event: EspalierEvent): void => {
      const at = left.findIndex(({ when }) => when(event));
      const [due] = at === -1 ? [] : left.splice(at, 1);
      const act = (): void => {
        const begun = run();
        if (begun !== undefined) due?.act(begun, clock);
      };
      if (due?.isAtOnce === true) act();
      else if (due !== undefined) setImmediate(act);
    },
  };
}
