// Values that examples in docstrings use and do not make. Add a name only if its type says enough to a reader of the example.

import { z } from "zod";

import type {
  AgentRole,
  Answer,
  FunctionTool,
  Model,
  Orchestrator,
  PausedRun,
  Question,
  Run,
  RunResult,
} from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";
import type { RunFold } from "../../src/view.ts";
import type { Viewer } from "../../src/viewer-server/index.ts";

declare const made: {
  readonly orchestrator: Orchestrator;
  readonly run: Run;
  readonly result: RunResult;
  readonly pausedRun: PausedRun;
  readonly question: Question;
  readonly answers: readonly Answer[];
  readonly store: Store;
  readonly roles: readonly AgentRole[];
  readonly role: AgentRole;
  readonly researcher: AgentRole;
  readonly writer: AgentRole;
  readonly model: Model;
  readonly search: FunctionTool;
  readonly fold: RunFold;
  readonly view: Viewer;
};

export const { orchestrator, run, result, pausedRun, question, answers } = made;
export const { store, roles, role, researcher, writer, model, search } = made;
export const { fold, view } = made;
export { z };
