// Goal: public data is an interface, and its schema parses exactly that type: the same fields, the
// same optional fields, the same values.
// Method: `satisfies` beside each schema ensures that it returns no more than the interface allows;
// here both must be equal at any depth.

import { expectTypeOf, test } from "vitest";
import { z } from "zod";

import type { JsonValue } from "../../src/kernel/json.ts";
import type { FinishReason, FinishReasonSchema } from "../../src/protocol/finish-reason.ts";
import type { AppliedPrice, PriceUsedSchema } from "../../src/budget/prices-used.ts";
import type {
  SessionExecution,
  SessionExecutionSchema,
} from "../../src/orchestrator/sessions/session-record.ts";
import type {
  AccountGrant,
  AccountSchema,
  GrantSchema,
  LedgerAccount,
} from "../../src/protocol/account.ts";
import type {
  Attachment,
  AttachmentKind,
  AttachmentKindSchema,
  AttachmentSchema,
} from "../../src/protocol/attachment.ts";
import type {
  ContentPart,
  ContentPartSchema,
  MessageContent,
  MessageContentSchema,
} from "../../src/protocol/message-content.ts";
import type {
  InheritanceRecord,
  ContextManifestSchema,
} from "../../src/protocol/context-manifest.ts";
import type { Definitions, DefinitionsSchema } from "../../src/protocol/definition.ts";
import type { EventBodies } from "../../src/protocol/event-bodies.ts";
import type { EVENT_SCHEMAS } from "../../src/protocol/event-schemas.ts";
import type { EspalierEvent, EventBody, EventType, StampSchema } from "../../src/protocol/event.ts";
import type {
  AgentId,
  AgentIdSchema,
  CallId,
  CallIdSchema,
  ExecutionId,
  ExecutionIdSchema,
  LeaseId,
  LeaseIdSchema,
  MessageId,
  MessageIdSchema,
  QuestionId,
  QuestionIdSchema,
  RunId,
  RunIdSchema,
  SessionId,
  SessionIdSchema,
  StepId,
  StepIdSchema,
} from "../../src/protocol/ids.ts";
import type {
  AssistantMessage,
  AssistantMessageSchema,
  ImportedMessage,
  ImportedMessageSchema,
  Message,
  MessageSchema,
  MessageTag,
  MessageTagSchema,
  ReplyPart,
  ReplyPartSchema,
  StoredMessage,
  StoredMessageSchema,
  SystemMessage,
  ToolCall,
  ToolCallSchema,
} from "../../src/protocol/message.ts";
import type {
  ModelSettings,
  ModelSettingsSchema,
  ToolChoice,
  ToolChoiceSchema,
} from "../../src/protocol/model-settings.ts";
import type {
  Answer,
  AnswerSchema,
  AnswerType,
  AnswerTypeSchema,
  Question,
  QuestionSchema,
} from "../../src/protocol/question.ts";
import type {
  RequestParametersSchema,
  ShownPart,
  ShownPartSchema,
  StepContext,
  StepContextSchema,
} from "../../src/protocol/step-context.ts";
import type { StepRecord, StepRecordSchema } from "../../src/protocol/step-record.ts";
import type { StepTiming, StepTimingSchema } from "../../src/protocol/step-timing.ts";
import type {
  ErrorRecord,
  ErrorRecordSchema,
  StopReason,
  StopReasonSchema,
  StopSignal,
  StopSignalSchema,
  TerminalStatus,
  TerminalStatusSchema,
} from "../../src/protocol/stop.ts";
import type {
  DynamicRole,
  DynamicRoleSchema,
  SpawnRefusal,
  SpawnRefusalSchema,
  SpawnRequest,
  SpawnRequestSchema,
  SubagentOutcome,
  SubagentOutcomeSchema,
} from "../../src/protocol/subagent.ts";
import type { ToolFailure, ToolFailureSchema } from "../../src/protocol/tool-error-record.ts";
import type {
  ToolErrorSeverity,
  ToolErrorSeveritySchema,
  ToolOutcomeType,
  ToolOutcomeTypeSchema,
} from "../../src/protocol/tool-failure.ts";
import type { ToolExecution, ToolExecutionSchema } from "../../src/protocol/tool-outcome.ts";
import type {
  RemovedTool,
  RemovedToolSchema,
  ToolRule,
  ToolRuleSchema,
} from "../../src/protocol/tool-rule.ts";
import type {
  Usage,
  UsageReport,
  ModelUsage,
  ModelUsageSchema,
  UsageReportSchema,
  UsageSchema,
} from "../../src/protocol/usage.ts";

type Primitive = string | number | boolean | null | undefined;
/**
 * `T` with all fields writable, since schemas do not declare fields of objects as `readonly`. JSON
 * is recursive and stays as it is.
 */
type Frozen<T> = [JsonValue] extends [T]
  ? T
  : T extends Primitive
    ? T
    : { readonly [K in keyof T]: Frozen<T[K]> };
/** The parsed type of a schema. */
type Read<Schema> = Frozen<z.output<Schema>>;

test("the comparison finds a difference at any depth", () => {
  const part = z.strictObject({ text: z.string(), note: z.enum(["a", "b"]).exactOptional() });
  type Parts = Read<z.ZodArray<typeof part>>;
  expectTypeOf<Parts>().toEqualTypeOf<
    readonly { readonly text: string; readonly note?: "a" | "b" }[]
  >();
  expectTypeOf<Parts>().not.toEqualTypeOf<readonly { readonly text: string }[]>();
  expectTypeOf<Parts>().not.toEqualTypeOf<
    readonly { readonly text: string; readonly note?: "a" | "b" | undefined }[]
  >();
  expectTypeOf<Parts>().not.toEqualTypeOf<
    readonly { readonly text: string; readonly note?: "a" | "b"; readonly more?: string }[]
  >();
  expectTypeOf<Parts>().not.toEqualTypeOf<
    readonly { readonly text: string; readonly note?: "a" | "b" | "c" }[]
  >();
  expectTypeOf<Read<ReturnType<typeof RunIdSchema>>>().not.toEqualTypeOf<AgentId>();
});

test("the schema of each event parses the type of that event", () => {
  expectTypeOf<{
    [T in EventType]: Read<z.ZodObject<ReturnType<(typeof EVENT_SCHEMAS)[T]>, z.core.$strict>>;
  }>().toEqualTypeOf<{ [T in EventType]: Frozen<EventBodies[T]> }>();
  expectTypeOf<Read<ReturnType<typeof StampSchema>>>().toEqualTypeOf<
    Frozen<Omit<EspalierEvent<"model.warned">, keyof EventBody<"model.warned">>>
  >();
});

test("the schema beside an interface parses the type of that interface", () => {
  expectTypeOf<Read<ReturnType<typeof AccountSchema>>>().toEqualTypeOf<Frozen<LedgerAccount>>();
  expectTypeOf<Read<ReturnType<typeof GrantSchema>>>().toEqualTypeOf<Frozen<AccountGrant>>();
  expectTypeOf<Read<ReturnType<typeof AttachmentSchema>>>().toEqualTypeOf<Frozen<Attachment>>();
  expectTypeOf<Read<ReturnType<typeof AttachmentKindSchema>>>().toEqualTypeOf<AttachmentKind>();
  expectTypeOf<Read<ReturnType<typeof ContentPartSchema>>>().toEqualTypeOf<Frozen<ContentPart>>();
  expectTypeOf<Read<ReturnType<typeof MessageContentSchema>>>().toEqualTypeOf<
    Frozen<MessageContent>
  >();
  expectTypeOf<Read<ReturnType<typeof ContextManifestSchema>>>().toEqualTypeOf<
    Frozen<InheritanceRecord>
  >();
  expectTypeOf<Read<ReturnType<typeof DefinitionsSchema>>>().toEqualTypeOf<Frozen<Definitions>>();
  expectTypeOf<Read<ReturnType<typeof ToolCallSchema>>>().toEqualTypeOf<Frozen<ToolCall>>();
  expectTypeOf<Read<ReturnType<typeof ReplyPartSchema>>>().toEqualTypeOf<Frozen<ReplyPart>>();
  expectTypeOf<Read<ReturnType<typeof AssistantMessageSchema>>>().toEqualTypeOf<
    Frozen<AssistantMessage>
  >();
  expectTypeOf<Read<ReturnType<typeof MessageSchema>>>().toEqualTypeOf<Frozen<Message>>();
  expectTypeOf<Read<ReturnType<typeof ImportedMessageSchema>>>().toEqualTypeOf<
    Frozen<Exclude<Message, SystemMessage>>
  >();
  expectTypeOf<ImportedMessage>().toExtend<z.input<ReturnType<typeof ImportedMessageSchema>>>();
  expectTypeOf<Read<ReturnType<typeof MessageTagSchema>>>().toEqualTypeOf<Frozen<MessageTag>>();
  expectTypeOf<Read<ReturnType<typeof StoredMessageSchema>>>().toEqualTypeOf<
    Frozen<StoredMessage>
  >();
  expectTypeOf<Read<ReturnType<typeof ModelSettingsSchema>>>().toEqualTypeOf<
    Frozen<ModelSettings>
  >();
  expectTypeOf<Read<ReturnType<typeof ToolChoiceSchema>>>().toEqualTypeOf<Frozen<ToolChoice>>();
  expectTypeOf<Read<ReturnType<typeof QuestionSchema>>>().toEqualTypeOf<Frozen<Question>>();
  expectTypeOf<Read<ReturnType<typeof AnswerSchema>>>().toEqualTypeOf<Frozen<Answer>>();
  expectTypeOf<Read<ReturnType<typeof AnswerTypeSchema>>>().toEqualTypeOf<AnswerType>();
  expectTypeOf<Read<ReturnType<typeof ShownPartSchema>>>().toEqualTypeOf<Frozen<ShownPart>>();
  expectTypeOf<Read<ReturnType<typeof RequestParametersSchema>>>().toEqualTypeOf<
    Frozen<StepContext["parameters"]>
  >();
  expectTypeOf<Read<ReturnType<typeof StepContextSchema>>>().toEqualTypeOf<Frozen<StepContext>>();
  expectTypeOf<Read<ReturnType<typeof StepRecordSchema>>>().toEqualTypeOf<Frozen<StepRecord>>();
  expectTypeOf<Read<ReturnType<typeof StepTimingSchema>>>().toEqualTypeOf<Frozen<StepTiming>>();
  expectTypeOf<Read<ReturnType<typeof TerminalStatusSchema>>>().toEqualTypeOf<TerminalStatus>();
  expectTypeOf<Read<ReturnType<typeof StopReasonSchema>>>().toEqualTypeOf<Frozen<StopReason>>();
  expectTypeOf<Read<ReturnType<typeof StopSignalSchema>>>().toEqualTypeOf<Frozen<StopSignal>>();
  expectTypeOf<Read<ReturnType<typeof ErrorRecordSchema>>>().toEqualTypeOf<Frozen<ErrorRecord>>();
  expectTypeOf<Read<ReturnType<typeof DynamicRoleSchema>>>().toEqualTypeOf<Frozen<DynamicRole>>();
  expectTypeOf<Read<ReturnType<typeof SpawnRequestSchema>>>().toEqualTypeOf<Frozen<SpawnRequest>>();
  expectTypeOf<Read<ReturnType<typeof SpawnRefusalSchema>>>().toEqualTypeOf<Frozen<SpawnRefusal>>();
  expectTypeOf<Read<ReturnType<typeof SubagentOutcomeSchema>>>().toEqualTypeOf<SubagentOutcome>();
  expectTypeOf<
    Read<ReturnType<typeof ToolErrorSeveritySchema>>
  >().toEqualTypeOf<ToolErrorSeverity>();
  expectTypeOf<Read<ReturnType<typeof ToolOutcomeTypeSchema>>>().toEqualTypeOf<ToolOutcomeType>();
  expectTypeOf<Read<ReturnType<typeof ToolFailureSchema>>>().toEqualTypeOf<Frozen<ToolFailure>>();
  expectTypeOf<Read<ReturnType<typeof ToolExecutionSchema>>>().toEqualTypeOf<
    Frozen<ToolExecution>
  >();
  expectTypeOf<Read<ReturnType<typeof ToolRuleSchema>>>().toEqualTypeOf<Frozen<ToolRule>>();
  expectTypeOf<Read<ReturnType<typeof RemovedToolSchema>>>().toEqualTypeOf<Frozen<RemovedTool>>();
  expectTypeOf<Read<ReturnType<typeof UsageSchema>>>().toEqualTypeOf<Frozen<Usage>>();
  expectTypeOf<Read<ReturnType<typeof ModelUsageSchema>>>().toEqualTypeOf<Frozen<ModelUsage>>();
  expectTypeOf<Read<ReturnType<typeof UsageReportSchema>>>().toEqualTypeOf<Frozen<UsageReport>>();
  expectTypeOf<Read<ReturnType<typeof FinishReasonSchema>>>().toEqualTypeOf<FinishReason>();
  expectTypeOf<Read<ReturnType<typeof PriceUsedSchema>>>().toEqualTypeOf<Frozen<AppliedPrice>>();
  expectTypeOf<Read<ReturnType<typeof SessionExecutionSchema>>>().toEqualTypeOf<
    Frozen<SessionExecution>
  >();
});

test("the schema of an id parses the type of that id", () => {
  expectTypeOf<Read<ReturnType<typeof RunIdSchema>>>().toEqualTypeOf<RunId>();
  expectTypeOf<Read<ReturnType<typeof AgentIdSchema>>>().toEqualTypeOf<AgentId>();
  expectTypeOf<Read<ReturnType<typeof ExecutionIdSchema>>>().toEqualTypeOf<ExecutionId>();
  expectTypeOf<Read<ReturnType<typeof StepIdSchema>>>().toEqualTypeOf<StepId>();
  expectTypeOf<Read<ReturnType<typeof CallIdSchema>>>().toEqualTypeOf<CallId>();
  expectTypeOf<Read<ReturnType<typeof LeaseIdSchema>>>().toEqualTypeOf<LeaseId>();
  expectTypeOf<Read<ReturnType<typeof SessionIdSchema>>>().toEqualTypeOf<SessionId>();
  expectTypeOf<Read<ReturnType<typeof MessageIdSchema>>>().toEqualTypeOf<MessageId>();
  expectTypeOf<Read<ReturnType<typeof QuestionIdSchema>>>().toEqualTypeOf<QuestionId>();
});
