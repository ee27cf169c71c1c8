// Goal: a type that a public declaration writes out always equals the internal type or list behind
// it.

import { expectTypeOf, test } from "vitest";

import type { UnansweredPolicy } from "../../src/agent/approver.ts";
import type { McpServer } from "../../src/mcp/connect-mcp.ts";
import type { SkippedMcpTool } from "../../src/mcp/mcp-options.ts";
import type { ReasoningField } from "../../src/model/openai/answer-options.ts";
import type { OpenAiOptions } from "../../src/model/openai/openai-model.ts";
import type { MaxTokensField } from "../../src/model/openai/to-openai.ts";
import type { SessionOptions } from "../../src/orchestrator/sessions/session-options.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type { MessageRetentionPolicy } from "../../src/policies/retention-policy.ts";
import type {
  Account,
  AccountGrant,
  BudgetAxis,
  LedgerAxis,
  SpendAxis,
} from "../../src/protocol/account.ts";
import type { WORK_TYPES, WorkType } from "../../src/protocol/event-bodies.ts";
import type { PAUSE_CODES, PauseCode, STOP_CODES, StopCode } from "../../src/protocol/stop.ts";
import type { SqliteDriver } from "../../src/store/sqlite/sqlite-driver.ts";
import type { SqliteStoreOptions } from "../../src/store/sqlite/sqlite-store.ts";

type Option<Options, Name extends keyof Options> = NonNullable<Options[Name]>;

test("a list has all values of its union", () => {
  expectTypeOf<(typeof STOP_CODES)[number]>().toEqualTypeOf<StopCode>();
  expectTypeOf<(typeof PAUSE_CODES)[number]>().toEqualTypeOf<PauseCode>();
  expectTypeOf<keyof AccountGrant["budget"]>().toEqualTypeOf<BudgetAxis>();
  expectTypeOf<keyof Account["excess"]>().toEqualTypeOf<SpendAxis>();
  expectTypeOf<Exclude<SpendAxis, "costUsd"> | "costMicroUsd">().toEqualTypeOf<LedgerAxis>();
  expectTypeOf<(typeof WORK_TYPES)[number]>().toEqualTypeOf<WorkType>();
});

test("an option accepts the type that the code behind it accepts", () => {
  expectTypeOf<Option<SessionOptions, "retention">>().toEqualTypeOf<
    Partial<MessageRetentionPolicy>
  >();
  expectTypeOf<Option<OrchestratorOptions, "unansweredPolicy">>().toEqualTypeOf<UnansweredPolicy>();
  expectTypeOf<Option<OpenAiOptions, "maxTokensField">>().toEqualTypeOf<MaxTokensField>();
  expectTypeOf<Option<OpenAiOptions, "reasoningField">>().toEqualTypeOf<ReasoningField | false>();
  expectTypeOf<Option<SqliteStoreOptions, "driver">>().toEqualTypeOf<SqliteDriver>();
  expectTypeOf<McpServer["skippedTools"][number]>().toEqualTypeOf<SkippedMcpTool>();
});
