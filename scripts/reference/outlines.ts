// Which public names stand on which page of a subject. A name that is listed on none stands on the page of its entry, in `api/`.

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
      "What `defineAgent` takes, and what its options are made of. How they work together: [budgets](../budgets.md), [delegating](../delegating.md), [context](../context.md), [stopping](../stopping.md), [messages](../messages.md), [types](../types.md).",
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
      "What `defineTool` and `defineDelegation` take, what a tool is handed, and what stands around it. Explained in [tools](../tools.md), [guards](../guards.md), [errors](../errors.md).",
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
      "What holds for all runs of an `Orchestrator`, and what it does. Options of one run are those of [start](start.md).",
    parts: [
      { title: "The orchestrator", names: ["Orchestrator", "OrchestratorOptions"] },
      {
        title: "What the options are made of",
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
      "What goes with `start`, `resume`, `recover`, `fork`, `execute` and `session` of an [orchestrator](orchestrator.md), and what can be done with a run that lives. Explained in [pausing](../pausing.md), [durability](../durability.md), [sessions](../sessions.md), [streaming](../streaming.md), [more than one machine](../scale-out.md).",
    parts: [
      { title: "Starting", names: ["StartOptions", "OptionsWithContext", "MessageContent"] },
      { title: "Resuming", names: ["ResumeOptions", "ResumeGrant"] },
      {
        title: "Recovering",
        names: ["StoredResumeOptions", "ResumeLostRunsOptions", "ResumedRuns"],
      },
      { title: "Forking", names: ["ForkOptions"] },
      {
        title: "Executing and working",
        names: ["ExecuteOptions", "RunRequest", "WorkerOptions", "Worker", "RunCommand"],
      },
      {
        title: "On a session",
        names: ["SessionOptions", "Session"],
      },
      {
        title: "A run that lives",
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
      "What `run.result` gives, what each step leaves, and what histories are made of. All of it is plain JSON and frozen. Explained in [steps](../steps.md), [messages](../messages.md), [prices](../prices.md), [how an execution ends](../stopping.md#how-an-execution-ends).",
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
        title: "How it ended",
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
        title: "What it used",
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
        title: "Subagents that were started, or refused",
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
