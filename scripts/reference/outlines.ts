// Assigns public names to the pages of subjects. A name without a subject is on the page of its entry, in `api/`.

export interface Outline {
  readonly file: string;
  readonly title: string;
  readonly intro: string;
  readonly parts: readonly { readonly title: string; readonly names: readonly string[] }[];
}

export const OUTLINES: readonly Outline[] = [
  {
    file: "agent.md",
    title: "Options of an agent",
    intro:
      "The options of `defineAgent` and their types. These pages explain how the options work together: [budgets](../budgets.md), [subagents](../subagents.md), [context](../context.md), [cancellation](../cancellation.md), [messages](../messages.md) and [TypeScript](../typescript.md).",
    parts: [
      { title: "The definition", names: ["defineAgent", "AgentDefinition"] },
      { title: "The model", names: ["ModelSettings", "ToolChoice"] },
      { title: "Limits", names: ["Budget", "SubagentLimits", "ErrorBudget", "ErrorPolicy"] },
      {
        title: "Subagents",
        names: ["DelegationPolicy", "BudgetShare", "SubagentContextPolicy", "DynamicRoleBounds"],
      },
      {
        title: "Requests and the history",
        names: ["RequestSection", "SectionContext", "Compaction"],
      },
      {
        title: "Stop conditions",
        names: [
          "StopCondition",
          "StopContext",
          "allOf",
          "anyOf",
          "not",
          "hasToolCall",
          "hasFinishReason",
        ],
      },
    ],
  },
  {
    file: "tool.md",
    title: "Options of a tool",
    intro:
      "The options of `defineTool` and `defineDelegation`, the context of a tool call, wrappers, toolsets and guards. These pages explain them: [tools](../tools.md), [guardrails](../guardrails.md) and [errors](../errors.md).",
    parts: [
      {
        title: "Tools",
        names: [
          "defineTool",
          "ToolDefinition",
          "ExternalToolDefinition",
          "ToolSettings",
          "ToolDefaults",
          "ToolContext",
          "ToolProgress",
        ],
      },
      {
        title: "Delegations",
        names: ["defineDelegation", "DelegationDefinition", "DelegationContext", "SpawnRequest"],
      },
      {
        title: "Results and errors",
        names: [
          "toolResult",
          "ToolResultOptions",
          "ToolError",
          "ToolErrorOptions",
          "ToolErrorSeverity",
          "ToolRetryError",
          "isToolTimeout",
        ],
      },
      {
        title: "Wrappers",
        names: [
          "withTimeout",
          "withRetries",
          "withRateLimit",
          "rateLimit",
          "RateLimitOptions",
          "withApproval",
        ],
      },
      { title: "Toolsets", names: ["combineTools", "filterTools", "prefixTools", "renameTools"] },
      {
        title: "Guards and filters",
        names: [
          "toolGuard",
          "GuardContext",
          "GuardedCall",
          "GuardDecision",
          "toolFilter",
          "FilterContext",
        ],
      },
    ],
  },
  {
    file: "orchestrator.md",
    title: "Options of an orchestrator",
    intro:
      "The options and methods of an `Orchestrator`. They apply to all its runs. [Options of a run](start.md) lists the options of one run.",
    parts: [
      { title: "The orchestrator", names: ["Orchestrator", "OrchestratorOptions"] },
      {
        title: "Types of the options",
        names: [
          "Concurrency",
          "RetryPolicy",
          "Prices",
          "Approver",
          "EventSink",
          "Store",
          "Tracing",
        ],
      },
    ],
  },
  {
    file: "start.md",
    title: "Options of a run",
    intro:
      "The options of the methods of an [orchestrator](orchestrator.md) that start or continue a run, and the methods of the `Run` that they return. These pages explain them: [human in the loop](../human-in-the-loop.md), [crash recovery](../crash-recovery.md), [sessions](../sessions.md), [streaming](../streaming.md) and [scale-out](../scale-out.md).",
    parts: [
      { title: "Starting", names: ["StartOptions", "OptionsWithContext", "MessageContent"] },
      { title: "Resuming", names: ["ResumeOptions", "ResumeGrant"] },
      {
        title: "Resuming stored runs",
        names: ["StoredResumeOptions", "ResumeLostRunsOptions", "ResumedRuns"],
      },
      { title: "Forking", names: ["ForkOptions"] },
      {
        title: "Workers and commands",
        names: ["ExecuteOptions", "RunRequest", "WorkerOptions", "Worker", "RunCommand"],
      },
      {
        title: "Sessions",
        names: ["SessionOptions", "Session"],
      },
      {
        title: "The run",
        names: [
          "Run",
          "EventsOptions",
          "StreamOptions",
          "GrantOptions",
          "SteerReceipt",
          "StreamPart",
          "StreamPartBody",
          "PhaseReport",
        ],
      },
    ],
  },
  {
    file: "results.md",
    title: "Results, step records and messages",
    intro:
      "The result of a run, the records of its steps, and the messages of histories. All values are plain JSON and frozen. These pages explain them: [steps](../steps.md), [messages](../messages.md), [prices](../prices.md) and [stop reasons](../cancellation.md#stop-reasons).",
    parts: [
      {
        title: "The result of a run",
        names: [
          "RunResult",
          "CompletedRunResult",
          "IncompleteRunResult",
          "PausedRunResult",
          "RunResultBase",
          "AgentReport",
          "SubagentResult",
          "SubagentOutcome",
          "RemovedTool",
        ],
      },
      {
        title: "Statuses and reasons",
        names: [
          "SettledStatus",
          "TerminalStatus",
          "StopReason",
          "StopSignal",
          "StopCode",
          "PauseCode",
          "ErrorRecord",
          "AgentError",
        ],
      },
      {
        title: "Usage and cost",
        names: [
          "Usage",
          "UsageReport",
          "RunUsage",
          "ModelUsage",
          "Account",
          "AccountGrant",
          "AppliedPrice",
        ],
      },
      {
        title: "Steps",
        names: [
          "StepRecord",
          "StepContext",
          "StepTiming",
          "ToolCall",
          "ToolExecution",
          "ToolErrorRecord",
          "ToolOutcomeType",
          "Definitions",
        ],
      },
      {
        title: "Messages",
        names: [
          "StoredMessage",
          "Message",
          "SystemMessage",
          "UserMessage",
          "AssistantMessage",
          "ToolMessage",
          "ContentPart",
          "Attachment",
          "AttachmentKind",
          "FinishReason",
        ],
      },
      {
        title: "Questions and pauses",
        names: ["Question", "QuestionRef", "Answer", "PausedRun"],
      },
      {
        title: "Started and refused subagents",
        names: [
          "SpawnOutcome",
          "SubagentReceipt",
          "SpawnRefusal",
          "SpawnRefusalCode",
          "SPAWN_REFUSAL_CODES",
          "InheritanceRecord",
        ],
      },
    ],
  },
];
