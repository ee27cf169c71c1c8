// Every requirement of the product, by id. Tests cite the ids that they prove; an id that no test
// cites must be marked as planned. The letter of an id names its source.

export interface Requirement {
  readonly text: string;
  /** Promised for a later release; no test need cite it yet. */
  readonly isPlanned?: true;
}

/** The source of the requirements whose ids begin with a letter. */
export const SOURCES: Readonly<Record<string, string>> = {
  R: "the first specification, from what users of other frameworks reported",
  X: "the specification of budgets, delegation, approvals, replay and recovery",
  S: "attacks on the first version: hostile servers, faults at every effect, and its own demo",
  M: "the specification of providers, and bugs that their other clients had",
  F: "the specification of streams",
  E: "the specification of workers and engines on several machines",
  H: "the specification of typed results and contexts, and the measures of a light core",
  V: "the specification of the viewer",
  D: "trials by new users, readers of the documents, audits, and defects found since",
};

const requirements = {
  R1: {
    text: "One loop owns the control flow, and draining a run uses the same implementation as iterating over it",
  },
  R2: {
    text: "A step has six phases (prepare, infer, evaluate response, execute tools, apply tool results, evaluate continuation), each yielded as its own type",
  },
  R3: {
    text: "The caller can intervene between any two phases, for example between the model reply and the execution of its tools",
  },
  R4: { text: "Leaving the iterator early, by break, return or throw, is safe" },
  R5: { text: "Stop conditions are checked before the first model call as well" },
  R6: { text: "A reply without tool calls ends the run as completed" },
  R7: {
    text: "A new run always makes its first model call, even without any signal that work is left",
  },
  R8: {
    text: "A final answer in the last allowed step completes the run instead of stopping it at the limit",
  },
  R9: {
    text: "The presence of tool calls decides whether a run continues; the provider's finish reason is only a secondary signal",
  },
  R10: {
    text: "Finish reasons are normalised, and each of them (stop, length, content_filter, other, tool_calls, unknown, error) has a defined effect",
  },
  R11: {
    text: "An empty reply is requested again a bounded number of times, whereas a text with an unknown finish reason is an answer",
  },
  R12: {
    text: "The abort signal is checked at the start of each turn and is passed to model and tools",
  },
  R13: { text: "Pending subtasks run before the next model call" },
  R14: {
    text: "A context overflow triggers compaction, after which the run continues; it is neither an error nor a step",
  },
  R15: {
    text: "A step returns an explicit outcome: continue, stop, compact or retry",
  },
  R16: { text: "Errors of models, hooks and processors are handled in one place" },
  R17: { text: "`iterate` yields the state after every step, including the last one" },
  R18: { text: "Each step is completed exactly once on every path" },
  R19: { text: "Limits are evaluated after a reply and before its tools run" },
  R20: { text: "Limits are evaluated before each request and again after its tokens are counted" },
  R21: {
    text: "A stop signal that is raised in any phase takes effect before the next phase begins",
  },
  R22: {
    text: "Of several stop signals the one with the highest priority wins, not the first (error, stop requested, user, steps, tokens, time, cost, retry or error budget, finish reason, completed)",
  },
  R23: { text: "All stop signals are recorded" },
  R24: {
    text: "A stop hook may let an agent continue a bounded number of times, but never against a hard limit or a cancel",
  },
  R25: {
    text: "Models implement an exchangeable interface, and a scripted model runs the whole library offline",
  },
  R26: { text: "A paused run has the status `paused`, which differs from running and completed" },
  R27: { text: "A pause returns a typed list of its pending calls" },
  R28: { text: "`resume(state, results)` continues the same execution" },
  R29: {
    text: "A run pauses for calls that need approval and for calls that are executed elsewhere",
  },
  R30: { text: "Supplied results are validated before anything runs" },
  R31: { text: "A paused state survives serialisation" },
  R32: {
    text: "Calls of the same reply that need no input run before the pause, and their results are kept",
  },
  R33: {
    text: "An in-process approver may answer at once; without an approver the run pauses",
  },
  R34: {
    text: "Waiting for an answer does not count against the time limit",
  },
  R35: {
    text: "Every way of ending has its own outcome: completed, step, token or time limit, error, aborted",
  },
  R36: { text: "A run returns a result with steps, status, reason, usage and final text" },
  R37: { text: "An agent has the status pending before its first execution" },
  R38: { text: "Reading the state of an agent never creates or changes a state" },
  R39: { text: "State transitions are validated" },
  R40: { text: "Immutable configuration is separate from the state of a run" },
  R41: { text: "The state of an agent consists of conversation, run log and telemetry" },
  R42: {
    text: "State changes are named transitions, such as recording a step or failing with an error",
  },
  R43: { text: "A step consists of input and output, tools, and telemetry" },
  R44: { text: "State values are immutable, and each change returns a new value" },
  R45: {
    text: "The transient data of a step (messages, reply, tool executions, errors, timestamps) is in one object, which is cleared after the step, also if the step fails",
  },
  R46: { text: "Results, contexts and events contain no agent state" },
  R47: { text: "Serialisation is stable and versioned, and omits transient data" },
  R48: { text: "The stop reason is set explicitly and never inferred from class names" },
  R49: {
    text: "Interfaces declare optional abilities, which are not detected by probing for methods",
  },
  R50: {
    text: "A stop condition is a composable function that returns a reason or nothing",
  },
  R51: { text: "A stop reason is a value with code, message and context data" },
  R52: { text: "A run can be limited in steps" },
  R53: { text: "A run can be limited in input, output and total tokens" },
  R54: { text: "A run can stop when a named tool was called in the last step" },
  R55: { text: "A run can stop on a finish reason" },
  R56: { text: "A run can be limited in execution time" },
  R57: { text: "A run can be limited in cost, for which an unknown price is not zero" },
  R58: { text: "A run can have an absolute deadline in addition to a relative time limit" },
  R59: { text: "Stop conditions can be combined with or: the run stops when one of them fires" },
  R60: {
    text: "Stop conditions can be combined with and: the run stops once all of them have fired",
  },
  R61: {
    text: "Conditions that stop a run and reasons to continue it are in separate lists",
  },
  R62: {
    text: "Stop conditions may be asynchronous, and one that throws or rejects fails the run visibly",
  },
  R63: { text: "Stop conditions keep no state across runs" },
  R64: {
    text: "On request, the model is asked to finish in the last allowed step and gets no tools",
  },
  R65: { text: "A tool guard returns allow, deny or ask" },
  R66: {
    text: "Deny overrides ask and ask overrides allow in any order, and a guard that throws denies",
  },
  R67: {
    text: "A denied call becomes a tool result that the model reads, and the run continues",
  },
  R68: {
    text: "Ask calls the approver, pauses the run without one, and denies in non-interactive mode",
  },
  R69: {
    text: "The reason of a deny or an ask reaches the model, the events and the audit log",
  },
  R70: {
    text: "Whether a tool call is blocked and whether the run continues are decided separately",
  },
  R71: {
    text: "A blocked call has its own error code, which an error policy may turn into a stop",
  },
  R72: {
    text: "The guards of a call are evaluated independently of their order, and all their decisions are recorded",
  },
  R73: {
    text: "Arguments that a hook or an approver changed are validated and guarded again before the call runs",
  },
  R74: {
    text: "Three identical consecutive calls raise a question instead of stopping the run",
  },
  R75: {
    text: "A subagent cannot do what its parent is forbidden to do, but may have tools that its parent lacks",
  },
  R76: {
    text: "Observers return nothing, cannot change the run, and their errors are isolated",
  },
  R77: {
    text: "There are callbacks for finished steps and for finished executions, and the latter are called for every way of ending",
  },
  R78: { text: "Hooks can change the messages of a request before each model call" },
  R79: {
    text: "Hooks can change the system prompt and the arguments of tools",
  },
  R80: { text: "A hook may change only the fields that its hook point allows" },
  R81: { text: "The hooks of one chain see the changes of earlier hooks" },
  R82: {
    text: "Changes that are made while tools run, for example to metadata, are kept",
  },
  R83: { text: "The order of hooks is deterministic" },
  R84: {
    text: "A hook is called only at its own hook point, and may declare one or two parameters",
  },
  R85: { text: "Hooks can be limited to tools by name" },
  R86: { text: "Hooks can wrap model calls and tool calls" },
  R87: {
    text: "Hooks, guards, conditions and processors have names, which appear in signals, blocked events and the audit log",
  },
  R88: { text: "Processors run after each step, in order" },
  R89: {
    text: "There are hook points for run start and end, user input, before and after a tool, before compaction, stop, subagent start and stop, and notification",
  },
  R90: { text: "User input can be intercepted and refused before a run starts" },
  R91: {
    text: "The stop of a subagent can be observed and vetoed, a bounded number of times, like that of the root",
  },
  R92: {
    text: "Everything that stops or continues a run, including hooks, uses one channel of stop signals",
  },
  R93: { text: "Sections of the prompt are registered with role, order and life cycle" },
  R94: {
    text: "Custom sections are registered with an explicit order and are sent to the model",
  },
  R95: { text: "An event reports that a section of the prompt was cleared" },
  R96: {
    text: "History processors are composable and transform the list of messages before each model call",
  },
  R97: {
    text: "After history processors the list of messages is valid: every result has its call, and every call has its result",
  },
  R98: { text: "Messages carry the ids of their step, execution and agent" },
  R99: { text: "The messages of a failed execution can be removed from the history by their tag" },
  R100: {
    text: "The token budget is checked before a model call, and an overflow is truncated, summarised or reported as an error",
  },
  R101: {
    text: "Token counting is exchangeable: reported usage is preferred, and an estimate is marked as one",
  },
  R102: { text: "Earlier history and the new messages of a run are distinguishable" },
  R103: { text: "Arguments are checked against the types of the schema" },
  R104: { text: "Arguments are checked against enums and other constraints of the schema" },
  R105: { text: "Arguments are checked for required fields" },
  R106: { text: "Arguments are coerced only without loss, such as '123' to 123" },
  R107: {
    text: "A tool can ask the model to retry, with feedback and context",
  },
  R108: { text: "A request to retry, a failure and a success are distinguishable" },
  R109: {
    text: "Retries are counted per tool and reset when that tool succeeds",
  },
  R110: { text: "The outcome of too many retries is defined" },
  R111: {
    text: "A large result is truncated with a notice of its real and its shown size",
  },
  R112: { text: "Large results can be summarised by a model call" },
  R113: {
    text: "The filter for leaked arguments compares exactly and logs what it removes",
  },
  R114: {
    text: "Results are serialised canonically, including objects, arrays, null, undefined, errors and binary data",
  },
  R115: {
    text: "A call of an unknown tool returns the available names, and the other calls of the reply still run",
  },
  R116: { text: "A wrapper requires approval for a tool" },
  R117: { text: "A wrapper limits the rate of a tool per time window" },
  R118: { text: "A wrapper limits the time of a tool and aborts it" },
  R119: { text: "A wrapper retries a failed tool automatically by a policy, without the model" },
  R120: { text: "Wrappers compose in a defined order" },
  R121: { text: "Toolsets can be filtered, prefixed, renamed and combined" },
  R122: {
    text: "A tool declares its maximum of retries, its time limit and its need for approval",
  },
  R123: { text: "Tools can be filtered in each step by the state" },
  R124: {
    text: "A filtered or removed tool does not run even if the model calls it",
  },
  R125: {
    text: "The calls of one reply may run in parallel up to a limit, sequential tools are barriers, and results come in call order",
  },
  R126: { text: "A spawn tool starts subagents from a registry of agent definitions" },
  R127: { text: "By default a subagent starts with its own prompt and its task only" },
  R128: { text: "A policy lets a subagent inherit the last messages of its parent" },
  R129: { text: "A policy lets a subagent inherit metadata, all of it or by key" },
  R130: { text: "A policy injects additional context into a subagent" },
  R131: { text: "Lists allow or deny tools of subagents" },
  R132: {
    text: "An event and a record name the tools that were removed from a subagent, and why",
  },
  R133: {
    text: "A tool in both the allow and the deny list is denied and reported",
  },
  R134: { text: "A subagent is told what it cannot do" },
  R135: {
    text: "The result of a subagent contains text, steps, used tools, used budget, metadata and status",
  },
  R136: { text: "The failure of a subagent is returned in its result, and the parent continues" },
  R137: { text: "The depth of a tree is limited, to 3 by default" },
  R138: { text: "The number of subagents per parent is limited, to 5 by default" },
  R139: { text: "The number of subagents in a tree is limited, to 10 by default" },
  R140: { text: "The number of subagents per depth is counted and visible" },
  R141: {
    text: "Limits hold for parallel spawns, and a refused or failed spawn releases its slot",
  },
  R142: {
    text: "The budget of a subagent is the smaller of its definition and what the tree has left, on each axis",
  },
  R143: { text: "The actual usage of a subagent is deducted from its parent's budget" },
  R144: { text: "Parallel subagents together cannot exceed the budget of the tree unnoticed" },
  R145: { text: "Budgets and usage work over several levels" },
  R146: { text: "Events report the spawn, completion, refusal and failure of subagents" },
  R147: { text: "The history of a parent contains only the spawn call and its result" },
  R148: {
    text: "Cancelling a parent cancels all its descendants, while a subagent that cancels itself does not cancel its parent",
  },
  R149: {
    text: "Approval requests of descendants reach the root with their path, and answers reach the asking agent",
  },
  R150: { text: "The results of sibling subagents can be made visible to a subagent" },
  R151: {
    text: "A subagent can be given the constraints and failed attempts of its parent",
  },
  R152: { text: "The history contains a marker between two executions" },
  R153: { text: "Retention limits the messages of a history, to 100 by default" },
  R154: { text: "Retention can limit the executions of a history, which is off by default" },
  R155: { text: "Retention can summarise what it drops, which is off by default" },
  R156: { text: "A run can be forked at a step" },
  R157: { text: "A fork is independent of its origin" },
  R158: { text: "Each further execution of an agent starts in a defined state" },
  R159: {
    text: "An error has one of four severities: retryable, recoverable, fatal for its call, or abortive for the run",
  },
  R160: {
    text: "Every error source maps to one classification: validation, execution, blocked, stop request, model or timeout",
  },
  R161: {
    text: "A validation message contains the parameter, the expected type, the received value and a hint",
  },
  R162: { text: "An execution message contains the tool name, the error type and a hint" },
  R163: { text: "A timeout message contains the tool, the limit and a hint" },
  R164: { text: "The error budget limits tool errors, to 5 by default" },
  R165: { text: "The error budget limits consecutive errors, to 3 by default" },
  R166: { text: "The error budget limits errors that request a retry, to 10 by default" },
  R167: {
    text: "Provider errors are classified, and retryable ones are retried with backoff without counting as steps",
  },
  R168: {
    text: "A tool error from which the model recovered does not fail the run",
  },
  R169: {
    text: "Tools get a read-only context with agent id, step number, call id, retry counts, metadata and messages",
  },
  R170: { text: "Each parallel call has its own context" },
  R171: {
    text: "Tools spawn subagents by a service in their context, without access to the state",
  },
  R172: {
    text: "Each step records a snapshot of its context: model, tool names, prompt hash, initial budget and step number",
  },
  R173: {
    text: "Model parameters, tool definitions and the prompt text of a step can be recovered",
  },
  R174: { text: "The time of model calls, tools, hooks and formatting within a step is measured" },
  R175: { text: "A recorded run can be replayed without a model" },
  R176: {
    text: "Events carry the ids of execution, step and call, and those of subagents also the id of their parent",
  },
  R177: {
    text: "Event payloads are typed, for example a completed tool with name, ids, duration, outcome, error type and usage",
  },
  R178: { text: "OpenTelemetry spans have gen_ai attributes with versioned names" },
  R179: { text: "Golden traces fix the order of events, including failures" },
  R180: { text: "Every evaluation of whether a run continues emits an event" },
  R181: { text: "Token usage is reported per step and in total" },
  R182: {
    text: "Each execution emits exactly one final event (finished, failed, stopped or cancelled) with its true status",
  },
  R183: { text: "The loop is small, flat and readable in one place" },
  R184: { text: "There is one API, without adapters for an older one" },
  R185: {
    text: "Four suites guard golden traces, state transitions, continuation and serialisation",
  },
  R186: { text: "The overhead of the loop is measured before and after changes" },
  R187: { text: "The loop, the events and the extension points are documented" },
  X1: {
    text: "Every model call in a tree, including summaries and repairs, reserves its counted input plus its output cap in its own account and in those of all ancestors, and its cap is reduced to what is left",
  },
  X2: {
    text: "A reservation that may fit later waits in order of arrival, and one that can never fit is refused at once with the tightest ancestor and axis",
  },
  X3: {
    text: "Input, cached input, output and total tokens, cost, steps, tool calls and time can be limited at any level, and the tightest limit on the path applies",
  },
  X4: {
    text: "A policy (pool by default, fixed, even or weighted) defines how a parent shares its budget with subagents, which return what they do not use",
  },
  X5: {
    text: "A parent can reserve budget for its own final answer, which subagents cannot use",
  },
  X6: {
    text: "The remaining budget can be shown to the model, and the thresholds of 80 % and 95 % emit one event each",
  },
  X7: {
    text: "A running or stopped tree can be granted more budget, and the grant is recorded with its author",
  },
  X8: {
    text: "Every spawn ends exactly once with a final status, whether by answer, limit, error, cancel or crash and recovery",
  },
  X9: {
    text: "A run cannot end while subagents live; the role chooses whether to await (default), cancel or detach them",
  },
  X10: {
    text: "A subagent runs in the foreground or in the background, where the parent gets a receipt, can list, await, message and cancel it, reads its result at the next step, and can continue it later with its history",
  },
  X11: {
    text: "A failure policy for subagents of one reply isolates failures (default), fails fast, or requires a quorum",
  },
  X12: {
    text: "The result of one subagent can be passed to another by id, verbatim and in a frame that its text cannot forge",
  },
  X13: {
    text: "The spawn event and span record what a subagent received: counts and hashes of inherited messages, metadata keys, injections and removed tools",
  },
  X14: {
    text: "A refusal tells the model the limit, its current and maximum value and an alternative, and results count refusals by code",
  },
  X15: {
    text: "Empty output is `no_output` and incomplete output is `partial`; neither is a success",
  },
  X16: {
    text: "Limits, denials and deadlines are inherited and can only be tightened by subagents",
  },
  X17: {
    text: "An approval applies to one exact call and its arguments, is decided once by the first answer, and has an optional deadline with a defined outcome",
  },
  X18: {
    text: "Usage has one definition everywhere (own, descendants, total, by role, by model) and is never counted twice",
  },
  X19: {
    text: "Model calls and tool calls of a tree have concurrency limits, and a parent that waits for subagents holds no slot",
  },
  X20: {
    text: "With an output schema the agent returns its typed result by a finish tool, whose validation errors are returned to it a bounded number of times",
  },
  X21: {
    text: "Repetitions are also detected across delegations of the same task to the same role",
  },
  X22: {
    text: "A run has one ordered event stream with agent path, depth and sequence number, which subscribers can filter by agent and whose backlog is bounded by a declared policy",
  },
  X23: {
    text: "A running agent can be steered from outside, and the caller learns at which step the message was delivered, or why not",
  },
  X24: { text: "A whole tree can be forked at a step of its root" },
  X25: {
    text: "A recorded tree replays deterministically, including parallel interleavings",
  },
  X26: {
    text: "Roles can be read from Markdown files with front matter, which are validated by the same schema",
  },
  X27: {
    text: "A parent may let the model draft a role at spawn, within bounds on tools, models and budget",
  },
  X28: {
    text: "Tools of MCP servers (stdio and streamable HTTP) can be filtered, prefixed, guarded and traced like any other tools",
  },
  X29: {
    text: "OpenAI Chat Completions and Responses, compatible servers, and all providers of the Vercel AI SDK are supported",
    isPlanned: true,
  },
  X30: {
    text: "An unknown price is never zero; prices come from a maintained, dated table and can be overridden",
  },
  X31: {
    text: "The prefix of requests is stable (instructions, tools in fixed order, append-only history), so that provider caches hit",
  },
  X32: {
    text: "Stop conditions can be combined with and, or and not, and report which of them fired",
  },
  X33: {
    text: "A cancel ends leaves first within a bounded time, and every result contains its reason",
  },
  "S7.1": {
    text: "A usage figure that cannot be true is replaced by our own count and reported once as estimated, the ledger stays consistent, and a journal with such a figure is readable",
  },
  "S7.2": {
    text: "A retry is paid from what is really left after the losses of earlier attempts",
  },
  "S7.3": {
    text: "The client cuts a reply at twice its cap and reports a body over 16 MiB or an endless line as `model_protocol_error` without retry, in bounded memory, and charges what it received up to twice the cap",
  },
  "S7.4": {
    text: "A pattern in the schema of an MCP server is neither compiled nor run, so that it cannot freeze the process, while the rest of the schema is checked",
  },
  "S7.5": {
    text: "Durations, deadlines and time limits use a monotonic clock and do not depend on changes of the wall clock",
  },
  "S7.6": {
    text: "A custom fetch sends neither credentials nor prompts to another origin, and follows only a 307 or 308 within the origin, at most five times",
  },
  "S7.7": {
    text: "Tests detect faults in reserves, prices of cached input, heartbeats, inputs of conditions, paused time, tasks in telemetry and streamed reasoning",
  },
  "S7.8": {
    text: "At a resume every approved call is validated and guarded again, and an answer applies only to the exact call that was shown",
  },
  "S7.9": {
    text: "The error of an approver that throws or rejects is in the event, in the question and, if unanswered questions are denied, in the message to the model",
  },
  "S7.10": {
    text: "The reasons of an ask guard and of a hook's deny reach model, event and step log, and such a deny counts in addition to the guards, which are still evaluated",
  },
  "S7.11": {
    text: "A guard or hook of the orchestrator for an unknown tool causes a warning; a spawn request may deny tools that the subagent lacks, while a policy may not",
  },
  "S7.12": {
    text: "Spawns of one reply that exceed a limit are refused before an approver is called, counting earlier ones of the same reply",
  },
  "S7.13": {
    text: "A reply that was cut by the output limit is reported to the model with the number of tokens and a remedy, and in the reason with the limit",
  },
  "S7.14": {
    text: "A text with an unknown finish reason is an answer; only an empty reply is retried",
  },
  "S7.15": {
    text: "A request that is too long for the provider counts as neither a step nor an error if compaction resolves it",
  },
  "S7.16": {
    text: "After an abortive tool error, an exhausted error budget or a stop, nothing of the same reply begins, running calls are aborted, subagents are cancelled, and each call has one result",
  },
  "S7.17": {
    text: "The events of an end and the result list all stop signals in order of arrival, and the result lists the errors of the whole tree with the root cause first",
  },
  "S7.18": {
    text: "If a stop hook vetoes more often than its bound allows, the reason of the end says that it was overruled",
  },
  "S7.19": {
    text: "`allOf` remembers which parts have fired and evaluates each part once per check",
  },
  "S7.20": {
    text: "`fork(0)` repeats the first input, a run that paused in its first step can be forked, and a fork may replace a registered role by one of the same name",
  },
  "S7.21": {
    text: "If the set-up of a subagent fails after its admission, its slots are released, and events and result report its end",
  },
  "S7.22": {
    text: "`tool.started` is emitted only for calls that run, other calls have an event of their own, and step records contain arguments as written and as executed",
  },
  "S7.23": {
    text: "Errors of tools are shortened like results, and a shortened result of a delegation stays valid JSON with its outcome",
  },
  "S7.24": {
    text: "`processStep` is called only for completed steps, `SpawnSubagent` with `continue` needs no role, and `defineAgent` refuses a window that is too small for a summary",
  },
  "S7.25": {
    text: "A call whose arguments are not a JSON object is sent back as a parseable object, and a 500 after our own correction is not retried blindly",
  },
  "S7.26": {
    text: "A continuation of a subagent with `includeResultsFrom`, `newRole` or another role is either executed or refused with the reason",
  },
  "S7.27": {
    text: "A tightened time limit is in the manifest and has thresholds like every other axis, and a tool that a rule or guard forbids counts as a refused spawn",
  },
  "S7.28": {
    text: "A further attempt of a model call that the budget refuses ends like any refused lease, and one that may fit after siblings settle waits",
  },
  "S7.29": {
    text: "Step events and named side calls add up to the usage of the result, and `sumUsage` calculates it",
  },
  "S7.30": {
    text: "A new execution starts with retry counters and error budgets at zero, and the second of two answers to one pause is refused",
  },
  "S7.31": {
    text: "Every exported span lies within its parent, to the microsecond",
  },
  "S7.32": {
    text: "A run with a thousand agents exports a few traces, one with fewer than 5,000 spans a single one, and `queue_wait` spans appear only for relevant waits, with the tool's name",
  },
  "S7.33": {
    text: "An unknown cost is never exported as 0 or shown as $0",
  },
  "S7.34": {
    text: "In Jaeger a wait that ended at a resume can be found by its duration, and the names of sibling spans differ within the visible columns",
  },
  "S7.35": {
    text: "Refused, denied, stopped and crashed spans show their outcome as one documented table defines, and resource attributes contain process, host and version",
  },
  "S7.36": {
    text: "The first program prints why a run failed, a run can reject with its reason, a failing store is reported, and the demo's exit code reflects the outcome",
  },
  "S7.37": {
    text: "Common first errors contain a remedy, `start` accepts a signal, and an orchestrator can list, find, recover and close its runs",
  },
  "S7.38": {
    text: "An MCP server that answers 401 is reported as unauthorised, with the option to set",
  },

  M1: {
    text: "Reasoning and other parts of a reply are sent back to their model byte for byte and in order, across journal, pause, recovery, fork, session and inheritance",
  },
  M2: {
    text: "Such parts are never sent to a model with another replay key, and are sent again when the model that wrote them continues",
  },
  M3: {
    text: "However a history was edited, requests match its messages, and reasoning is sent only with the text or calls to which it belongs",
  },
  M4: {
    text: "A message is serialised once per replay key, and the text of each request begins with the text of the previous one, including such parts",
  },
  M5: {
    text: "A reply with inconsistent parts is refused with the part named, and provider data appears in no trace, log or live view",
  },
  M6: {
    text: "Over Chat Completions, reasoning and its related data are read and sent in the server's own format",
  },
  M7: {
    text: "Each recorded Chat Completions reply is parsed alike, whole, in chunks of 61 bytes, with CRLF and with a BOM",
  },
  M8: {
    text: "Over Chat Completions an overflow is recognised in many wordings, rejected calls are corrected, a filtered choice ends the reply, and usage is read in every format",
  },
  M40: {
    text: "A role's model settings are in each of its requests, step records, events and spans, and settings that force a call apply to the first step only",
  },
  M41: {
    text: "No lease is below the minimum cap of its model, and all agents of a role have the same provider cache key",
  },
  M42: {
    text: "Fields that a provider adapter omitted from a request are reported once per run by an event, never on the console",
  },
  M43: {
    text: "The demo and the first program run over Responses as over Chat Completions",
  },
  M20: {
    text: "Requests use Node's own http and https, reuse sockets, and do not keep the process alive with idle ones",
  },
  M21: {
    text: "A reply in gzip or brotli is decoded, and compression is requested only for replies that are not streamed",
  },
  M22: {
    text: "A compressed body is bounded like a plain one, even if it decodes to nothing, and an invalid encoding is reported as such",
  },
  M23: {
    text: "Requests use the proxy of the environment or the option, and a Node version that cannot use one is reported at once",
  },
  M24: {
    text: "A 307 or 308 within the origin is followed, and any other redirect is refused with both origins named",
  },
  M25: {
    text: "The API key reaches only the configured server, and neither redirects, proxies nor error messages contain it",
  },
  M26: {
    text: "An abort closes the socket in every state of the request, visibly for the server",
  },
  M27: {
    text: "A socket that the server closed while idle costs no attempt, and a request that the server may have received is not repeated",
  },
  M28: { text: "A connection attempt fails after ten seconds" },
  M29: {
    text: "A program that uses the package runs after bundling by esbuild, as ESM and as CommonJS, or by Vite",
  },
  M30: {
    text: "Every language model of the AI SDK 7 can be used as a model, and an incompatible value is refused with a remedy",
  },
  M31: {
    text: "Provider data of an AI SDK reply is sent back byte for byte to that model only",
  },
  M32: {
    text: "No AI SDK provider is asked for more output than the cap, reasoning included",
  },
  M33: {
    text: "A failed AI SDK call is classified by status and wording, ends at its deadline or abort even if it ignores them, and an endless stream costs a bounded amount",
  },
  M34: {
    text: "Each recorded reply of Anthropic and Gemini is parsed alike, whole, in chunks of 61 bytes, with CRLF and with a BOM",
  },
  M35: {
    text: "An agent with tools completes over every AI SDK provider within its budget, even across a pause and a change of the model",
  },
  M36: {
    text: "A request over the AI SDK contains everything that the SDK supports, unsupported fields cause a warning, and warnings of providers are reported",
  },
  M37: {
    text: "The demo uses a model of the AI SDK if its package is installed, and passes any other name unchanged to the configured server",
  },
  M38: {
    text: "Arguments that are not a JSON object are sent to AI SDK providers as an object that contains the model's text",
  },
  M46: {
    text: "Importing the root loads two files, and neither a provider client, a validator nor an unused schema",
  },
  M10: {
    text: "A Responses stream is parsed to the reply or error of its events in any order and chunking, and unknown or repeated events are ignored",
  },
  M11: {
    text: "A failure over Responses is classified by code, status and wording, and a server without this interface is distinguished from one without the model",
  },
  M12: {
    text: "A reply over Responses is bounded like one over Chat Completions, whichever events deliver it",
  },
  M13: {
    text: "A Responses request is stateless: everything that the model wrote is sent back in order, without ids, and nothing is stored at the provider",
  },
  M14: {
    text: "Over Responses, a message is serialised separately for each model, and the text of a request is a prefix of the next one",
  },
  M15: {
    text: "Earlier parts that a provider cannot read or encrypt are omitted within the same attempt, reported once, and not sent again",
  },
  M16: {
    text: "`openai()` uses Responses at OpenAI and Chat Completions elsewhere, unless its option says otherwise",
  },
  M17: {
    text: "Settings of a model and of a request are sent as fields, and a setting that the interface does not support is refused",
  },
  M18: {
    text: "Each recorded Responses reply is parsed alike, whole, in chunks of 61 bytes, with CRLF and with a BOM",
  },
  M19: {
    text: "On request a schema is sent in its strict form, whose values match the schema once added nulls are removed, and a schema without a strict form is refused with the path",
  },
  M52: {
    text: "A text that is JSON, or contains one fenced JSON block, is accepted as the typed result if it fits and the reply ended normally, unless a hook watches Finish; otherwise the model reads the problems",
  },
  M53: {
    text: "A typed result is requested natively if the model supports it, and by Finish if it does not, if hooks watch Finish, or if the role chooses so; native output of an unsupported model is refused",
  },
  M54: {
    text: "Without Finish, a text without calls is the result if it fits, is corrected at most twice, and is a cut reply if the cap ended it",
  },
  M55: {
    text: "The schema of a typed result is sent in each interface's own field, strict if possible, over Responses, Chat Completions and the AI SDK",
  },
  M56: {
    text: "A typed result other than an object is wrapped in a key for the model and unwrapped for the user, results without the key are accepted, and nulls of a strict form are removed",
  },
  M57: {
    text: "In the last step of the budget the model is forced to return its typed result, with all tools still listed if it obeys a tool choice, unless its provider refuses that with reasoning",
  },
  M58: {
    text: "The schema of a typed result is counted with the tools, is part of the cache key, the request prefix and the step record, and is the same after a recovery",
  },
  M59: {
    text: "A span contains the output schema, OpenAI interface, and requested and actual service tier of a model call if they are set",
  },
  M51: {
    text: "The client waits as long as a provider requests, up to a tenth longer, or else up to eight seconds with jitter; a delay over `retryPolicy.maxDelayMs` fails the call at once with the delay in its error",
  },
  M65: {
    text: "`modelLimits` applies to all models, runs and orchestrators that share it: at most `maxConcurrentRequests` run, in order of arrival, while waiting calls hold no slot and report `queuedMs`",
  },
  M66: {
    text: "Request and token limits refill by the minute, unused tokens return at once, oversized requests run alone with a warning, and a Retry-After delays all sharers of the limits or fails them at once",
  },
  M67: {
    text: "`withFallback` calls its models in order within one attempt, skips a failed one for a while, prefers the writer of open calls, sends each its own reasoning only, and refuses duplicate models",
  },
  M68: {
    text: "A fallback is reserved at its highest price and charged at the price of the model that used the tokens, in events, spans, `usage.byModel` and prices, across pauses, recoveries and replays",
  },
  M69: {
    text: "A provider that ignores its cap overspends a budget by at most one request's excess per agent, at any number of attempts and fallbacks",
  },
  M50: {
    text: "A small slip in the JSON of arguments, such as a wrong comma, single quotes or a comment, is repaired without a model call if the reply ended normally, the tool is retryable and the arguments fit; hooks, guards, step and trace see the repaired call",
  },
  F1: {
    text: "The parts streamed since the last reset of a step equal its reply, wherever a stream breaks",
  },
  F2: {
    text: "Texts, reasoning, calls, their arguments and tool results are streamed per agent as they arrive, numbered",
  },
  F3: {
    text: "A reset withdraws parts of a stream that became invalid because of a retry, a discarded or replaced reply, or a crash",
  },
  F4: {
    text: "A late reader of stream parts receives current replies from their beginning, and a slow reader fails alone",
  },
  F5: {
    text: "`run.events({ from })` returns past events from the journal and then live ones, without gap or repetition even across a crash, or throws if the past is not stored",
  },
  F6: {
    text: "A run as server-sent events resumes after Last-Event-ID, ends with the result, and keeps an idle connection alive",
  },
  M60: {
    text: "A price has tiers by input length and rates for cache reads and writes, and each request of a call is charged by the tier of its own length",
  },
  M61: {
    text: "A lease is reserved at the tier of the counted input plus a tenth and settled at the real one, so that a cost limit is exceeded by at most one call's excess",
  },
  M62: {
    text: "A cost that a provider reports replaces the price, and a cost over twice the price causes one warning per run",
  },
  M63: {
    text: "A model's own price precedes the orchestrator's prices, which precede our table; they are looked up by base URL or provider once per model at the start",
  },
  M64: {
    text: "For another service tier the published price does not apply: a requested tier without a given price is unpriced, and so is a call whose reply reports one",
  },
  E40: {
    text: "A run is executed by a worker that has its role in its version, no matter when the worker starts; other workers ignore the run",
  },
  E41: {
    text: "A run of a role that no worker ever had in this version is refused as `unknown_role`, whether requested for now or for later",
  },
  E42: {
    text: "However often a run is requested from any place, one execution runs at a time, and requests during it cause one more execution afterwards",
  },
  E43: {
    text: "An execution that is scheduled for later begins at its time without delaying earlier ones, and a run that waits until a time is executed then",
  },
  E44: {
    text: "A run whose execution could not be started is retried until it succeeds, with delays that grow to some seconds",
  },
  E45: {
    text: "A worker that closes takes no new runs, releases all its runs and waits until they have settled, and another worker continues them at once",
  },
  E46: {
    text: "A worker executes no more runs at once than its limit, over all its roles",
  },
  E47: {
    text: "Roles and versions may have any name, even over an engine whose own names are restricted",
  },
  E48: {
    text: "The runs of a killed or frozen worker are taken over by another one within 35 s",
  },
  E49: {
    text: "A worker's messages about a run that was taken over are ignored; it is told to release the run and executes it again only afterwards",
  },
  E50: {
    text: "An engine sets no time limit on an execution or a wait while its worker lives",
  },
  E51: {
    text: "A worker survives the loss of its database, continues when the database is back, and loses nothing",
  },
  E52: {
    text: "An engine that cannot be used throws `engine_failed` with cause and remedy, or `missing_package`, and is tried again at the next request",
  },
  E53: {
    text: "An engine can use the user's own instance, which it neither closes nor changes otherwise",
  },
  M75: {
    text: "A provider of the official client authorizes over HTTP: its token is sent with every request, and a refused token is replaced once, by one request at a time",
  },
  M76: {
    text: "A server that requires authorization causes an error with scheme, scope, resource metadata and remedy, and no token appears in an error, event or trace or is sent to another origin",
  },
  M77: {
    text: "A running tool can ask the approver of the run for a value, learns at once if nobody can answer, and asks nothing after its call has ended",
  },
  M78: {
    text: "Questions of an MCP server are answered by the approver of the calling run, validated and with defaults of the schema, or declined; sampling is declined with a reason",
  },
  M79: {
    text: "Every scenario of the public conformance suite for MCP clients passes",
  },
  M70: {
    text: "A task, a message and a delegation in code may contain images, audio and files, and a model without support for them reads one line for each",
  },
  M71: {
    text: "Each model is sent attachments in its own format, in the tool result if the provider supports it or else after the results, and the text of a request is a prefix of the next one",
  },
  M72: {
    text: "Attachments of a tool or MCP result, failed or not, are shown to a model that supports them, unless the tool says otherwise",
  },
  M73: {
    text: "Attachments survive journal, pause, session, fork, delegation and a change of the model; their bytes are stored once in a journal and never in a trace or event",
  },
  M74: {
    text: "Attachments are counted and bounded before they are sent, refused before a request if they cannot be sent, and the newest are kept when a history is shortened",
  },
  E90: {
    text: "`engineContract()` contains the promises of every engine as checks for any test runner, and fails for an engine that breaks one",
  },
  E91: { text: "The engine on the store alone satisfies the contract of engines" },
  E92: {
    text: "The engine on pg-boss satisfies the contract of engines with a PostgreSQL store",
  },
  E93: {
    text: "The engine on Restate satisfies the contract of engines with a PostgreSQL store",
  },
  E100: {
    text: "Runs of a killed worker are continued by another one to the same texts, and no persisted effect is repeated",
  },
  E101: {
    text: "A frozen worker that wakes up after a takeover does no harm: the run has one journal and one result, and no call that must not be repeated begins twice",
  },
  E102: {
    text: "A hundred concurrent requests for one run over an engine cause one run, with each effect once",
  },
  E103: {
    text: "A run on an engine, executing or waiting for an answer, can be cancelled from any process, and nothing of it begins afterwards",
  },
  E104: {
    text: "A run that waits for an answer continues after all workers were replaced, makes the call once, and refuses a second answer",
  },
  E105: {
    text: "A worker that is asked to end releases its runs within its grace period, and effects that returned by then are not repeated",
  },
  E106: {
    text: "A run with an invalid definition is tried once and reports why, and a role that no worker has is refused at once",
  },
  E107: {
    text: "A run that moved between workers has one ordered list of events and one trace, in which no span began twice",
  },
  E108: {
    text: "Runs whose database fails are released and continue when it is back, without repeating persisted effects",
  },
  E109: {
    text: "While workers and the engine are killed at random, every run ends with its normal text, unless a call that must not be repeated was interrupted, and no reservation stays open",
  },
  H10: {
    text: "The result of a run has the type of its role's `output` for start, resume and fork in `result`, `settled`, `orThrow` and `cancel`, and without a role the type of the orchestrator's roles",
  },
  H11: {
    text: "A typed result can be defined by a JSON Schema, which is shown, checked and corrected like that of a tool",
  },
  H12: {
    text: "A role requires the context that its tools, hooks, guards, filters, sections, stop conditions and subagents require, inferred without type arguments, and starting or continuing a run without it does not compile",
  },
  H13: {
    text: "Tools, hooks, guards, filters, sections and stop conditions of every agent receive the same context object, neither copied nor frozen",
  },
  H14: {
    text: "A context is never stored in an event, span, journal, paused run, session or result, and is passed again to resume, resumeLostRuns and fork",
  },
  H15: {
    text: "Instructions may be a function of the context, which is called once per execution, and their text is persisted across pauses and crashes; a function that throws or returns no text fails with a coded error before anything else happens",
  },
  E80: {
    text: "A run that moves between processes, after a crash or a release, is one trace whose span continues under its id, with and without OpenTelemetry",
  },
  E81: {
    text: "Ids and times of a moved run are derived from its log, so that events appear in its trace in order and no span id is used twice",
  },
  E82: {
    text: "No span is exported twice: a span leaves its process once its end is persisted, and never from a process that lost the run or cannot persist it",
  },
  E83: {
    text: "With `traceparent` a run is a child of that span, in preference to an active one and with the same sampling, even after it moved and, in the event log, without OpenTelemetry",
  },
  E84: { text: "A `traceparent` that is not of version 00 is refused at once" },
  E85: {
    text: "When the result of a run resolves, all its spans have ended, so that a flush exports them",
  },
  H20: {
    text: "The root entry exports at most 130 names and all entries together at most 450; every name is exported from one entry, every reachable type is exported, and the report of the root has at most 2,500 lines",
  },
  H21: {
    text: "Values that leave the core are deeply frozen, in production as well: inputs of user code, reports of `iterate()`, events, snapshots and results",
  },
  H22: {
    text: "A run stays within fixed bounds on executed lines, functions, calls and stack frames, which may only decrease, and enters no file of a feature that it does not use",
  },
  E128: {
    text: "Any process may post to the mailbox of a run, each key once and in an order without gaps; a post reopens a paused run, and an ended run accepts none",
  },
  E129: {
    text: "A process can release a run while it is open, and whichever process claims the run continues it",
  },
  E60: {
    text: "Over Restate a requested run is executed once, and only by a worker that has its role in its version",
  },
  E61: {
    text: "Over Restate one execution of a run runs at a time, and requests during it are executed afterwards",
  },
  E62: {
    text: "Over Restate a run is executed at the requested time, and a run that waits until a time is executed then",
  },
  E63: {
    text: "Over Restate an execution that rejects is repeated until it settles",
  },
  E64: {
    text: "A worker behind Restate accepts no more runs over one connection than it can execute, and one that closes releases its runs to another worker and resolves when all have settled",
  },
  E65: {
    text: "A run requested over Restate is executed again when its worker or the server is killed, and a worker writes nothing to the console",
  },
  E66: {
    text: "A run whose role no worker ever had in its version is refused by Restate's engine as unknown",
  },
  E67: {
    text: "A Restate server that cannot be reached or refuses, and a port that is taken, are coded errors with a remedy",
  },
  E68: {
    text: "Without keys a worker behind Restate listens on this machine alone, and with keys it refuses requests that Restate has not signed",
  },
  E69: {
    text: "Invalid options of Restate's engine are refused at once, and a missing package is named when it is needed",
  },
  E10: {
    text: "`start` with an id begins one run, however often and wherever it is called: it returns the running handle, or rejects with `run_id_conflict` for another task and `run_exists` for a stored run, without revealing its content",
  },
  E11: {
    text: "A run that crashed after only its name was stored is begun under the same id by `start` and `execute`, and what was persisted before the crash is continued",
  },
  E12: {
    text: "`run.release` persists effects that return within the grace period, and ends others, which the next owner repeats unless they must not be",
  },
  E13: {
    text: "After a request to release nothing begins, the run is open without an owner, its result rejects with `run_released`, its readers end, and no timer, rejection or slot remains",
  },
  E14: {
    text: "A run that is requested again in the same process while it is being released continues there without repeating anything",
  },
  E15: {
    text: "A request by mail is executed once, wherever the run is owned and whenever its process crashes, and requests of a later release are left unread",
  },
  E16: {
    text: "Answers by mail, some or all, are accepted while the approver is asked, at a pause, or once the run is executed again; the first counts, and an answer that did not fit may be repeated",
  },
  E17: {
    text: "A run that received mail is shown, recovered and replayed like any other",
  },
  E18: {
    text: "`orchestrator.cancel` ends a run that is owned here, elsewhere or nowhere, has not begun or is paused, and no model call begins afterwards",
  },
  E19: {
    text: "`execute` starts, joins, recovers or awaits a run or returns its result, any number of times in any process: there is one run, and each effect happens once",
  },
  E20: {
    text: "`execute` refuses an invalid request, another task, an unknown role and another version without any effect",
  },
  E21: {
    text: "A permanent fault of a run is recorded after one attempt and reported in its result, and the run is tried again when it is resumed or requested again",
  },
  E22: {
    text: "A temporary fault is returned to the engine for a retry, and a worker ignores runs of other roles and versions, limits its concurrent runs, and finds runs that an engine lost",
  },
  E23: {
    text: "A closing worker releases its runs within its bound for others to continue, and an engine never takes a run from its current owner",
  },
  E24: {
    text: "`RunClient` requests a run once however often it is called, and whoever has its id can attach to it after any crash, with result, questions, answers and cancellation",
  },
  E25: {
    text: "`RunClient.events` returns each event of a run once and in order from any number on, wherever the run is executed, and ends when the run is inactive",
  },
  E110: {
    text: "Mail that arrives while a run becomes inactive and that its owner has not seen keeps the run open for the next owner, even after a crash",
  },
  E111: {
    text: "A run that waits until a deadline continues then over the engine on the store alone, even if the process that knew of it is gone, and is not retried endlessly if it was refused",
  },
  E112: {
    text: "If one of several executions of a run in a process is released, it rejects at once and the run continues for the others until the last one is released",
  },
  E113: {
    text: "While workers and the engine are killed and frozen at random, the journal of a run never contains a record of an older owner after one of a newer owner",
  },
  E114: {
    text: "Workers and clients on a database of a newer release, or without permission to create their tables, are refused at once with a coded error",
  },
  E120: {
    text: "Requests that arrive while an execution fails are processed once its reason is recorded, in one more execution",
  },
  E121: {
    text: "A worker closes within its bound even if the `context` of a run or a reply of its engine never comes, and the run stays open for others",
  },
  E122: {
    text: "A run of which the store lost data becomes inactive with that reason in its result, and is not read repeatedly",
  },
  E123: {
    text: "A run whose question has a deadline beyond any calendar waits without a scheduled time",
  },
  E124: {
    text: "The `signal` of any execution of a run cancels the run, whether the execution began it, joined it or waits for its owner",
  },
  E125: {
    text: "A closing worker behind Restate ends within seconds of its runs, even if the server is frozen or unreachable",
  },
  E126: {
    text: "Requests in a long queue of a persistent engine are redelivered with growing delays instead of at every sweep, and at once after a change of the run",
  },
  E127: {
    text: "A worker on a read-only store is refused before it serves",
  },
  V1: {
    text: "A read-only store finds the same runs as any other store while others write, and neither writes, creates, changes nor leaves anything",
  },
  V2: {
    text: "A read-only store does not create a missing file, and throws a coded error for a missing or foreign file or another version",
  },
  V4: {
    text: "A file that another process writes is read as of one moment, even after that process was killed",
  },
  V5: {
    text: "A run can be read incrementally: each event once, in order, with the number of its line, whatever happens to the run meanwhile",
  },
  V6: {
    text: "The steps of each agent and the request of each step equal those of the run's result and of `rebuildRequest`",
  },
  V7: { text: "The data of one agent is read from its own records without writing anything" },
  V8: {
    text: "A running step shows its recorded request, then its reply, then the outcome of each call",
  },
  V9: {
    text: "Each inherited message of a request names the ancestor in whose history it was first",
  },
  V10: {
    text: "The actions of agents before a pause and in earlier executions remain readable, as far as the store has them",
  },
  V11: {
    text: "Reading a journal, a stored result or a recorded request yields to other work in the event loop",
  },
  V20: {
    text: "A fold of a run's events shows the activity, steps, calls, refused spawns, end and usage of each agent and its subtree, equal to the result and the ledger",
  },
  V21: {
    text: "A client that applies a patch since a record to the snapshot of that record has the current snapshot",
  },
  V22: {
    text: "A fold handles each type of event, and ignores unknown events, events of other runs and agents without a beginning",
  },
  V23: {
    text: "The fold of a failed or stopped run shows the root cause first, with agent, step and call, and how it propagated",
  },
  V24: {
    text: "Waits for subagents, answers, slots and attempts, and time in which a run was paused or without an owner, are spans of their own and never shown as work",
  },
  V25: {
    text: "Text printed to a terminal view appears above its trees, complete and in order, and cannot control the terminal",
  },
  V26: {
    text: "A run is shown as lost after 30 s without a sign of life, as waiting if it has work and no process, and by its outcome once it has ended",
  },
  V27: {
    text: "`espalier runs` and `espalier show` show what is stored of runs, agents and steps, root cause first, with only the result on stdout, and write nothing to the store",
  },
  V28: {
    text: "`espalier tail` shows past and future events of a run, wherever it is owned, and exits like the run",
  },
  V40: {
    text: "A command exits with 0 for completed, 1 failed, 2 wrong use, configuration or role file, 3 stopped by a limit, 4 paused and 6 store error, and reports errors with code and remedy but without a stack",
  },
  V41: {
    text: "Only the result of a command is on stdout (text, one JSON object or events), model text cannot control the terminal, and a failed run reports its root cause first",
  },
  V42: {
    text: "A role file runs without code, with subagents beside it, models by id, built-in tools that read one folder, and servers of mcp.json whose tools need approval unless they are declared read-only",
  },
  V43: {
    text: "A run is selected by its id, a unique prefix or @last, and an ambiguous or unknown name is refused with an explanation",
  },
  V44: {
    text: "`init` creates working roles, reports what it does and overwrites nothing",
  },
  V45: { text: "`roles check` reports the faults of each role file with file and line" },
  V46: { text: "`doctor` reports whether each part of a project works, and creates nothing" },
  V47: {
    text: "Completion scripts contain all commands and options, and complete run ids from the store within a bounded time",
  },
  V48: {
    text: "The first Ctrl-C cancels the tree and the second exits; SIGTERM pauses a stored run and cancels any other",
  },
  V49: {
    text: "An outdated Node is reported in one line before anything is imported, a project's own copy of the package runs its command, and help loads nothing of the library",
  },
  V50: {
    text: "A configuration is searched upwards to the root of the project and validated, and a load failure is reported with file, line and remedy",
  },
  V51: {
    text: "A role file may select tools by name prefix, and leave its model to the reading code",
  },
  V52: {
    text: "Questions at the terminal are shown in full, never answered by one key, and withdrawn with their run, and nothing else is drawn meanwhile",
  },
  V53: {
    text: "Before `resume` continues an interrupted run, it lists the interrupted calls, those that must not be repeated first",
  },
  V70: {
    text: "A viewer has routes for lists of runs, runs, agents, steps, logs and questions, as stored in their journals, whichever process owns the run",
  },
  V71: {
    text: "A viewer admits requests with its token at a name of this machine, accepts changes only from its own pages as JSON of bounded length, and bounds connections",
  },
  V72: {
    text: "Every response of a viewer has headers that restrict a browser to its own files, and hostile ids and paths resolve to nothing",
  },
  V73: {
    text: "The feed of a run sends each reader exactly what is new since a record, by `after` or `Last-Event-ID`, even from another server or with another owner of the run",
  },
  V74: {
    text: "A reader that does not consume its feed is disconnected as lagging and slows neither the run nor other readers",
  },
  V75: {
    text: "With content off a viewer sends no text of a prompt, task, argument, result, question, answer or error",
  },
  V76: {
    text: "`redact` receives each text whole, before it is shortened or searched, and a text for which it fails is withheld",
  },
  V77: {
    text: "Answers over HTTP reach the run that asks, wherever it is owned, which continues once all are there; an answer to another call is refused",
  },
  V78: {
    text: "Of two people who answer one question the first counts and the other is told so, and a request is executed once per key",
  },
  V79: {
    text: "Over HTTP, cancel, pause and resume act at once on a run owned by this process, go to the mailbox of a run owned elsewhere, and use the attached roles for an inactive run",
  },
  V80: {
    text: "`view.approver` keeps a run waiting while its question is in the inbox, and withdraws the question when its signal is aborted",
  },
  V81: {
    text: "Lists of runs agree with their folds, by status, text and page, and every open question of the store is in the inbox",
  },
  V82: {
    text: "A viewer caches at most eight folded runs, and folding yields to other work of the process",
  },
  V83: {
    text: "Viewing runs writes and claims nothing, and nothing is read without a viewer",
  },
  V84: {
    text: "Invalid options of a viewer are refused at once",
  },
  V85: {
    text: "The token of a file outlives the server and is readable only by its user, and a token that others could read is replaced",
  },
  V86: {
    text: "The handler of a viewer serves it within the user's own server, below a path, with the user's own authorization",
  },
  V87: {
    text: "A step is shown with its request, reply and calls as in its agent's state, even while it is running",
  },
  V88: {
    text: "`espalier view` opens the viewer of the project's runs until it is closed, creates no store, writes only on request, and reveals the token to nobody else",
  },
  V89: {
    text: "`--view` shows a run or the demo in the browser while it runs, and until it is closed",
  },
  V90: {
    text: "The page consists of one HTML, one script and one style sheet of at most 250 KiB, 80 compressed, and contacts only its own server",
  },
  V91: {
    text: "In the tree of a run, siblings of one role and outcome share a line, folded and filtered agents are counted and reachable by keys, and ancestors of a match stay visible",
  },
  V92: {
    text: "A run of 5,000 agents is shown with fewer than 1,500 elements at every scroll position",
  },
  V93: {
    text: "A long pause in the timeline is a marked break of bounded width",
  },
  V94: {
    text: "The feed is read from the last known record, so that the page is exact after any interruption, even after a restart of the server",
  },
  V95: {
    text: "Changed amounts do not make the page rebuild its rows",
  },
  V96: {
    text: "Text of models, tools and users is shown as text in every field, without markup or links, and invisible or direction-changing characters by their code points",
  },
  V97: {
    text: "Calls are approved, denied and modified from the keyboard, never by one key; an edited call is shown again, and the run continues with exactly what was shown",
  },
  V98: {
    text: "If two browser tabs answer the same question, one answer is accepted and the other tab is told so",
  },
  V99: {
    text: "The open view is in the address of the page, so that links, reload and back restore it, and the token is never in it",
  },
  V100: {
    text: "No screen of the page, light or dark, violates a rule of axe or the content security policy",
  },
  V101: {
    text: "Each fault has a screen with a remedy, and a lost connection keeps the known state, is reported and is retried",
  },
  V102: {
    text: "A panel of the page that fails leaves the others intact",
  },
  V103: {
    text: "A hidden tab closes its feed after 30 s and resumes it when it is visible",
  },
  V104: {
    text: "Answers of one run can be sent together",
  },
  V105: {
    text: "The page explains missing content where it would be",
  },
  V110: {
    text: "A reader that disconnects while a run is read for its feed is forgotten, and nothing is read for it",
  },
  V111: {
    text: "A run whose events nobody reads any more becomes inactive: it pauses if it is stored, and is cancelled otherwise",
  },
  V112: {
    text: "Read-only commands, including `questions` and `doctor`, create and change no store",
  },
  V113: {
    text: "A run with an unreadable journal hides no other run from `runs` and `questions`, which report its fault, and an answer to it is refused with `invalid_journal`",
  },
  V114: {
    text: "A truncated list of runs or inbox says so, and the command also says how to see the rest",
  },
  V115: {
    text: "`resume --grant` adds to the limits of an inactive run and records the author, and an impossible grant is refused without any effect",
  },
  V116: {
    text: "The viewer's own memory store evicts the oldest ended runs beyond 256 MB and reports how many, but keeps active and waiting runs",
  },
  V117: {
    text: "Before the page resumes an interrupted run, it lists the tools that may be repeated with their agents",
  },
  V130: {
    text: "Pictures in documents are generated by a command, in a light and a dark version, and small",
  },
  V131: {
    text: "The browser demo is the first command of the README and works in a fresh clone, and no document runs a package with `npx` before it is installed",
  },
  V132: {
    text: "`run --answer ask` asks at the terminal, and the run continues with the answer: approved, denied with a reason, edited, or left open",
  },
  V133: {
    text: "`run --session` begins with the history of a stored session and adds to it",
  },
  V134: {
    text: "`run --otel` exports the spans of the run and reports how many arrived, and an unreachable endpoint changes neither result nor exit code",
  },
  V135: {
    text: "`runs --watch` redraws the list in place, within the terminal, until Ctrl-C, and is refused without a terminal",
  },
  V136: {
    text: "A paused run prints the commands for the answers that it needs on stderr, and an answer of the wrong kind is refused with the right command",
  },
  V137: {
    text: "The reason why a run did not complete is printed once on stderr, with amounts formatted as everywhere else",
  },
  V138: {
    text: "An invalid configuration is reported with the file that threw, or the missing folder of its roles",
  },
  V139: {
    text: "A run whose questions were all answered by mail is shown in `runs` and `show`, as on the page, as waiting for a process",
  },
  V140: {
    text: "`cancel` reports that a run is cancelled once it is, and that a cancel was requested if another process owns the run",
  },
  V141: {
    text: "The page of a run without an owner names the command that resumes it if it cannot be resumed there",
  },
  V142: {
    text: "`--model` is refused if no role file would use it, with the model that is used instead",
  },
  V143: {
    text: "`resume` reports which answer was rejected, and why, if it does not fit its call",
  },
  V144: {
    text: "The second of two people who answer on pages is told on the screen that the first answer counts, even if the question is gone",
  },
  V146: {
    text: "A run is in the same group of lists on the terminal and on the page, and a run paused on request needs attention",
  },
  V147: {
    text: "Reading the steps or a request of an agent with an unreadable state fails with the code of an invalid journal",
  },
  V150: {
    text: "A rejected answer is shown at its question on the page with the reason, and the question can be answered again",
  },
  V151: {
    text: "Commands shown on the page can be pasted as they are, with the name by which the viewer's command was started",
  },
  V152: {
    text: "An unknown address of the viewer shows a browser the page with a way back, and sends a program JSON",
  },
  V153: {
    text: "The command and the page use the singular for counts of one",
  },
  V154: {
    text: "An unknown cost is always labelled as a cost, and the view of a run lists the models without a price",
  },
  V155: {
    text: "`approve` prints the call with its arguments before it approves it, and asks at a terminal unless `--yes` is set",
  },
  V156: {
    text: "`resume` of a run that a process owns names the owner and the option to take the run over",
  },
  V157: {
    text: "A command that stores nothing does not lock a store that another command may have open",
  },
  V158: {
    text: "A fault of a configuration names its file, whether `defineConfig`, another part of the library or the orchestrator reports it",
  },
  D21: {
    text: "Every public name has a section in the reference with its import and purpose, and is in the list of all names; links between its pages work",
  },
  D22: {
    text: "Every event has a section with the time of its emission and every field",
  },
  D23: { text: "Every error code is documented with cause and remedy" },
  D24: {
    text: "Every option of an agent, a tool, a run and an orchestrator, and every field of results, steps and messages is documented",
  },
  D25: { text: "Exactly the environment variables that are read are listed on one page" },
  D26: { text: "Every name that is passed to OpenTelemetry is documented" },
  D200: {
    text: "examples/apps/code-review has a reviewer for each changed file, a typed verdict, and a budget in dollars that stops it with a notice",
  },
  D201: {
    text: "examples/apps/research runs researchers in the background, in parallel, and writes nothing before a person approves",
  },
  D202: {
    text: "examples/apps/chat streams answers to a page, continues after a kill, and keeps each person's allowance and messages separate",
  },
  D203: {
    text: "The package contains only what a user needs: no tests, sources, source maps, development conditions or links out of it",
  },
  D204: {
    text: "A release is refused from a dirty tree, another branch, or without a greater version and changes; it lists what would be published, and publishes only on request",
  },
  D205: {
    text: "Bundlers omit what a program does not import: a tool alone includes neither the loop nor the event schemas",
  },
  D206: {
    text: "A release is checked and packed in a clone, published exactly as checked, and refused if its sources have changed meanwhile",
  },
  D207: {
    text: "`npm pack` at the root is refused with the command that builds the package",
  },
  D208: {
    text: "The chat page shows an answer while it streams, as text, continues it after a reload, and shows earlier messages",
  },
  D220: {
    text: "Limits that stopped or refused something in a completed run are listed after its errors, once each with the first agent that reached them, and the run does not look failed",
  },
  D221: {
    text: "A terminal without a known size is drawn on like one of 80 by 24",
  },
  D223: {
    text: "Limits in dollars are shown to people and models as dollars, in refusals and lines as well",
  },
  D224: {
    text: "No time limit ends early on the monotonic clock, whatever the timers of the machine do",
  },
  D240: {
    text: "A question can be answered as soon as `question.asked` is received, in any process, and an answer that still comes too early is reported as such",
  },
  D241: {
    text: "`run.whenPersisted()` resolves once everything so far is in the store, where another process can find and continue it, and rejects for a run that is not or cannot be persisted",
  },
  D242: {
    text: "A run that pauses with unread mail continues by itself under the same handle, while a run that was asked to pause stays paused",
  },
  D243: {
    text: "With `onStreamPart` of the orchestrator a run streams from its first call, a late reader receives earlier parts, and a call that began without a reader is delivered whole",
  },
  D244: {
    text: "`toRunId` converts a text to a run id and refuses an invalid one",
  },
  D255: {
    text: "A reader of stream parts that starts late or reconnects receives earlier parts, each reply once and in order, and then new ones",
  },
  D256: {
    text: "A run as server-sent events completes a page at each connection and is followed from the call of `toSse` on",
  },
  D257: {
    text: "Messages that the retention of a session drops remain in its runs, which the session lists, so that a page can show the whole conversation",
  },
  D258: { text: "A run names the session that it continues, even after a recovery" },
  D270: {
    text: "Output that was received before a call failed or was abandoned is charged, and the next attempt has what is left",
  },
  D271: {
    text: "A reply that a hook returns without the model, with an implausible usage, is charged by our own count",
  },
  D272: {
    text: "A price that a model got after its role was defined is validated when a run starts",
  },
  D273: {
    text: "A detached subagent ends by the current time limits: a grant above moves its end, and its own clock is paused while its question waits",
  },
  D274: {
    text: "Subagents of one reply share the same budget, even if a sequential call is between theirs or some of them start after a pause",
  },
  D275: {
    text: "A model that reports zero usage is charged by our own count, so that token budgets apply",
  },
  D276: {
    text: "An invalid reply without usage is charged by its request and its text",
  },
  D280: {
    text: "Requests to a run while it pauses or before it continues by mail take effect once it continues, and its stream parts keep their numbering",
  },
  D281: { text: "A heartbeat that the end of its run overtakes does not lose the result" },
  D282: {
    text: "A grant on an axis that has no limit is refused before anything happens, and the run can still be resumed",
  },
  D283: {
    text: "A run that is to continue by mail does so even if its store fails temporarily",
  },
  D284: {
    text: "A list of answers that is not a list is refused as such, whichever way it is passed",
  },
  D285: {
    text: "An answer is kept if the run was asked to pause before its question was asked again",
  },
  D286: {
    text: "A run that was claimed but cannot continue is released unchanged, without any journal entry",
  },
  D287: {
    text: "A stored run that a limit stopped continues by its id with more budget, in its own journal and across a crash at any append; a run that ended otherwise is refused unchanged",
  },
  D288: {
    text: "A provider's reported cost of zero for a priced call is ignored: the price is charged, and the run is warned once",
  },
  D289: {
    text: "A run that cannot be recovered stays unchanged, even if another process continued it between the first read and the claim",
  },
  D300: {
    text: "An asynchronous listener that rejects ends neither the run nor the process and causes one warning",
  },
  D301: {
    text: "Complete calls in a Chat Completions stream are kept apart even without ids and indexes",
  },
  D302: {
    text: "A stream reader receives the result of each call once as the model reads it, including the summary of a long result and calls that never began",
  },
  D303: {
    text: "An agent with a typed result that replies with something else while background subagents run waits for them, and this does not count as a missing result",
  },
  D304: {
    text: "An unpaired surrogate is sent to models as U+FFFD, so that no server refuses the request or later ones of that history",
  },
  D305: {
    text: "A history continues with another provider even if that refuses the call ids of its writer, which itself receives its own ids",
  },
  D306: {
    text: "A history in which a model wrote a blank text before a call can be sent to Claude",
  },
  D307: {
    text: "A typed result other than an object, nullable or not, is accepted with and without its wrapping key",
  },
  D308: {
    text: "An agent that replies nothing while background subagents run waits for them without failing",
  },
  D320: {
    text: "An agent is linked to the background subagents whose results it received, even if they continued after a pause or a crash",
  },
  D321: {
    text: "Workers that share an engine on the store in one process each receive runs of their roles, and another worker continues what one releases",
  },
  D322: {
    text: "Unknown and invalid options of an engine on the store are refused",
  },
  D323: {
    text: "A worker with conflicting roles or unusable models is refused before it serves",
  },
  D324: {
    text: "The span of a delegation that starts several subagents is named after its tool",
  },
  D325: {
    text: "An exception or an invalid reply of a scripted model fails the test as an error of the script, not of the model",
  },
  D326: { text: "A manual clock refuses an invalid time and never goes back" },
  D327: {
    text: "Invalid options of a client, of attaching to a run, of closing a worker and of recording are refused by name",
  },
  D400: {
    text: "A response of an MCP server over 10 MB, or over another limit, is a coded error that closes its connection and releases its memory",
  },
  D401: {
    text: "At most 1,000 tools of an MCP server are used, and it may ask people 50 times in one call, unless options set other limits",
  },
  D402: {
    text: "A tool of an MCP server with an unreadable schema or an unusable name is skipped with a warning, and the other tools work",
  },
  D404: {
    text: "The provider's own finish reason is content: it is on a span only if content is recorded, and in no event",
  },
  D405: {
    text: "A run stores at most 200 characters of the provider's own finish reason",
  },
  D406: {
    text: "No error of a model contains a value of the headers option, neither whole, without its scheme, escaped nor cut",
  },
  D407: {
    text: "No error and no failed result of an MCP server contains a value of the headers that it was sent",
  },
  D408: {
    text: "Values of harmless headers and values of fewer than 6 characters stay in errors, so that messages stay readable",
  },
  D409: {
    text: "No error of a Restate engine contains a value of its headers option",
  },
  D420: {
    text: "Terminal and command show 10 MB of any text in time that grows with its length, and cut first where they show only a part",
  },
  D421: {
    text: "No escape sequence of foreign text reaches a terminal, neither cut in half nor formed by pieces between which something was removed",
  },
  D422: {
    text: "The page lays out, compares and receives long text in time that grows with its length, and shows the beginning of what is long",
  },
  D423: {
    text: "No folder tool returns a byte or a name from outside, even while another process replaces folders by links",
  },
  D440: {
    text: "A subagent whose model throws during set-up releases its slot, and every announced subagent ends",
  },
  D441: {
    text: "A start, resume, recovery or fork that fails because a model throws changes nothing in the store and can be tried again",
  },
  D442: {
    text: "Every subagent ends once, before its parent, however often the process dies and whatever the code of its delegation starts next time",
  },
  D443: {
    text: "A recovery charges each model call that the dead process had sent and releases the leases of calls that it had not sent",
  },
  D444: {
    text: "A refused takeover from a live process changes nothing: the live process keeps the run",
  },
  D445: {
    text: "A recovery charges each of several model calls that hooks had under way at once under one lease",
  },
  D470: {
    text: "A trace backend that serves one request after another receives every span, even if it is slow",
  },
  D471: {
    text: "Spans whose request timed out are reported as not confirmed, not as lost, in flush(), the warning and the metric",
  },
  D430: {
    text: "A value of 5 MB is validated against any foreign JSON Schema, or refused, in under 200 ms, with the same decision every time",
  },
  D431: {
    text: "A foreign JSON Schema that would take too long to compile is refused when its tool is defined",
  },
  D432: {
    text: "Text, reasoning and arguments of a stream beyond its cap are cut at twice the cap by our count: the connection is closed, and the reply ends as `length` with a warning",
  },
  D433: {
    text: "A stream that respects its cap is not cut in languages of up to six bytes per token",
  },
  D472: {
    text: "A process that released a run takes no snapshot of it, and its sinks receive no event number twice",
  },
  D473: {
    text: "The result of a run lists the subagents that still work, with their usage so far, even after a recovery",
  },
  D450: {
    text: "A resumed run gets at most the limits, budgets and denials of its roles in code and of the orchestrator, which only grants can raise",
  },
  D451: {
    text: "A role or limit that has become stricter since a pause applies when the run is resumed, and one that has become wider changes nothing",
  },
  D452: {
    text: "A paused run whose figures contradict each other, or its own history, is refused before anything happens",
  },
  D453: {
    text: "A fork is held to the roles in code like a resumed run, and keeps what its origin was granted",
  },
  D454: {
    text: "A waiting call of an unsigned paused run has the arguments that its model wrote, and runs only with a value that its schema derives from them; only rewriting hooks and non-deterministic transforms are exempt",
  },
  D455: {
    text: "With a signing key every change of a paused run is refused, wherever it is passed in",
  },
  D456: {
    text: "With signing keys an unsigned paused run is refused, the first key signs, and all keys verify",
  },
  D457: {
    text: "No random alteration of a paused run leads to more steps, tokens, tools or subagents, or to other calls, than the original allows",
  },
  D474: {
    text: "A delay that only the body of a refusal states is read over Chat Completions, Responses and the AI SDK",
  },
  D475: {
    text: "Over every adapter, cached tokens that exceed the reported input are counted in addition to it",
  },
  D476: {
    text: "An answer that is nested deeper than the call stack fails with the same error over Chat Completions and Responses",
  },
  D477: {
    text: "maxConcurrentRuns bounds how many runs of an orchestrator work at once, in order of arrival; queuedMs of run.started and run.resumed is the time that a run waited",
  },
  D478: {
    text: "A run that waits for its slot can be cancelled, released and recovered, its time limit does not run, and a run that another run starts does not wait",
  },
  D460: {
    text: "A run that crashes each of its processes fails with crash_loop after maxCrashes processes, over each engine, and a run beside it completes",
  },
  D461: {
    text: "A store counts the lost owners of a run, in the claim that replaces them, until a batch makes progress or the run becomes inactive",
  },
  D462: {
    text: "A crash is counted before the journal of the run is read and before any code of the user's runs",
  },
  D463: {
    text: "A crashed run waits 1 s, 2 s, 4 s and so on, at most 60 s, after the last counted crash, and other runs are executed meanwhile",
  },
  D464: {
    text: "A process executes one run at a time of those that crashed twice in a row, so that no crash counts for another run",
  },
  D465: {
    text: "A completed step or tool call resets the crash count of a run, and a call that a crash interrupted is not progress",
  },
  D466: {
    text: "resumeLostRuns recovers runs without crashes at once and the others later; after five deaths of its process it fails the run, and the next start survives",
  },
  D467: {
    text: "A run that fails with crash_loop ends all its subagents, charges its leases and has its result in the store; no tool or model is called for that",
  },
  D468: {
    text: "A run that crashes processes even while it is failed or read becomes inactive with crash_loop until a person resumes it",
  },
  D469: {
    text: "Releasing, resuming, answering or taking over a run does not count as a crash",
  },
  D410: {
    text: "An approved call runs with the exact JSON value that the question showed, parsed once, across pauses and crashes, and whoever answers",
  },
  D411: {
    text: "An approved call whose tool has another schema meanwhile runs only if that schema produces the same value, and is denied with the reason otherwise",
  },
  D412: {
    text: "A value that JSON cannot express is shown as the model wrote it, and runs after a pause or a crash only if its fingerprint is the same",
  },
  D413: {
    text: "Arguments that an answer changed are parsed like those of a model, and the parsed value is executed",
  },
  D414: {
    text: "External calls and delegations show, execute and record the value that was parsed when the call was bound",
  },
  D486: {
    text: "A JSON Schema of 2,000 parts can be used, in one object or behind references, $id and $anchor",
  },
  D415: {
    text: "A resume or fork is refused with output_mismatch if a stored typed result does not fit its role; the error names role, agent, fields and remedy, and the run is unchanged",
  },
  D416: {
    text: "A stored typed result fits if the schema is the same, derives the stored value from what the model wrote, or leaves the stored value unchanged",
  },
  D417: {
    text: "A recovery that is refused with output_mismatch claims, writes, charges and counts nothing, over recover, resumeLostRuns, execute and cancel",
  },
  D418: {
    text: "At whatever append a process crashes, the next one never accepts a result that its role does not allow",
  },
  D488: {
    text: "A message of an MCP server with more than 200,000 names and values, or 500 levels, is refused over both transports before it is parsed, like one that is too long",
  },
  D495: {
    text: "With a signing key, a promise or a result that is passed in place of a paused run is named as such",
  },
  D496: {
    text: "espalier show and the viewer show a person the code and the message of a run that no process could execute",
  },
  D497: {
    text: "The error of a run that is inactive with crash_loop advises to resume it, and that of a run that failed with it advises to start a new one",
  },
  D498: {
    text: "espalier cancel ends a run whose process has crashed, with the available roles",
  },
  D499: {
    text: "espalier resume --grant refuses a run that no limit stopped as wrong use and reports how it ended",
  },
  D489: {
    text: "The schemas of a list of MCP tools are compiled in bounded memory and work, a tool beyond the bound is skipped with a warning, and a pattern keeps no compiled program",
  },
  D580: {
    text: "Importing the library with a version of Node that is too old fails with a coded error that names the version it needs",
  },
  D504: {
    text: "A reply that arrives whole, or in whole items and calls, is cut at twice the cap by the same count as a stream, over Chat Completions, Responses and the AI SDK",
  },
  D505: {
    text: "A whole reply whose usage respects its cap is cut at eight bytes per token of that usage, and a cut reply is charged by its usage if that exceeds our count",
  },
  D506: {
    text: "A refusal without usage is charged by our count like a text",
  },
  D520: {
    text: "At a terminal every open question can be answered, one after the other",
  },
  D521: {
    text: "A failed tool call is reported with its message, redacted and at most 500 characters, by its event, causes, reports, terminal lines and lists of calls; with content off only by name and code",
  },
  D507: {
    text: "Streamed parts of a reply are cut at twice the cap even if the whole item differs, or a call is opened behind its arguments",
  },
  D508: {
    text: "A rejected call, as Groq reports it, is parsed in time linear in its length",
  },
  D581: {
    text: "executeTool makes one call of a tool as an agent does, and returns what the model reads, the outcome and the result as data",
  },
  D582: {
    text: "An output schema whose transform makes a value that is not JSON fails the run with invalid_argument, which names role, field and value",
  },
  D583: {
    text: "A definition with the name that another library uses for a field, or with a schema of zod 3, is refused with the name or version to use",
  },
  D584: {
    text: "Of several results in a reply the last that fits counts, after all other calls of the reply have run, also over a pause",
  },
  D522: {
    text: "A third identical call or delegation is refused with an instruction if no approver can be called; otherwise the question mentions the repetition",
  },
  D523: {
    text: "The reason of a paused run names each call that it waits for and its agent, including descendants",
  },
  D585: {
    text: "Below sameOriginFetch no redirect carries prompt or key of an AI SDK provider to another server; the command uses it for each model that it makes by name",
  },
  D509: {
    text: "Where no open handle reveals its path, folder tools read nothing outside, even on file systems that give several changes the same time",
  },
  D524: {
    text: "With --json every failure of a command prints exactly one JSON value with the code and the message of the error on stdout",
  },
  D525: {
    text: "runs, show and questions list nothing in a project without runs, create no file and exit with 0",
  },
  D526: {
    text: "A run whose process was killed is shown as lost at once; lists at 80 columns keep the task; the help lists every status in groups; a wrong port is refused",
  },
  D510: {
    text: "A listing of a folder measures only the files that it shows, however many the folder has",
  },
  D527: {
    text: "show and tail end with the result of a run that has ended: its text, or its typed result as JSON",
  },
  D550: {
    text: "A complete reply is accepted even if its connection breaks afterwards or its last blank line is missing, over all four interfaces",
  },
  D551: {
    text: "A broken attempt is charged by the input that its provider reported, or else by an estimate",
  },
  D511: {
    text: "Over Chat Completions, reasoning that arrived as data is charged when its reply breaks or is aborted, as over Responses",
  },
  D590: {
    text: "The viewer draws waits for budget, for a slot or provider limit, and for a busy process as separate kinds of span; a wait for budget names the account, and its agent is counted apart from working ones",
  },
  D591: {
    text: "The key n opens the inbox from the list of runs; in the inbox it moves the focus to the question that it shows",
  },
  D528: {
    text: "view --url prints the address of a viewer only if that viewer proves to have the project's token and to serve the same store, and sends no token to find out",
  },
  D529: {
    text: "SIGHUP ends a command like SIGTERM: a stored run pauses, and the tool servers of the command end",
  },
  D516: {
    text: "A paused fork that ran the subtasks of its origin before its first step can be resumed under limits",
  },
  D530: {
    text: "approve, deny and answer accept the code of a question in the list, and @last for the newest run that asks",
  },
  D531: {
    text: "Approval arguments that do not match the schema shown to the model are refused at once, by the command with exit code 2 and by the viewer with 409, without storing anything, and corrected ones are accepted",
  },
  D532: {
    text: "Approval arguments that only the tool's own check refuses leave the question open, and corrected ones are accepted",
  },
  D533: {
    text: "init sets the module type in package.json and installs the MCP client only after a yes at the terminal, or with --module and --mcp",
  },
  D534: {
    text: "A role or configuration in TypeScript that Node reads as CommonJS is refused with the command that sets the module type",
  },
  D535: {
    text: "runs shows the code for which no process could execute a paused run, even of one that has not begun",
  },
  D536: {
    text: "The wait for budget of an additional call of a hook ends in the events and in each view when the call is granted, refused or cancelled, whatever the hook does then",
  },
  D537: {
    text: "The wait for a slot or a provider limit of an additional call of a hook is drawn as such, not as a wait for budget",
  },
  D490: {
    text: "However many requests an MCP server over HTTP makes at once, at most 20 answers are sent at a time",
  },
  D491: {
    text: "An error of an MCP server contains at most 10,000 characters of what the server wrote",
  },
  D492: {
    text: "No report of progress and no instructions of an MCP server contain a value of the headers that it was sent",
  },
  D493: {
    text: "A request of an MCP server for data whose schema has more than 2,000 parts is refused at once",
  },
  D552: {
    text: "A usage with output or cost but without input keeps both, over all four interfaces; only its input is estimated",
  },
  D553: {
    text: "Input that a provider adds for its own tools is charged if the reply names them; otherwise an event reports that a usage was rejected and how the call was charged",
  },
  D554: {
    text: "A bare error line and a page of HTML in place of a stream are reported with a part of their text",
  },
  D555: {
    text: "A body in deflate or zstd is decoded; one in another encoding is refused by the name of its encoding",
  },
  D556: {
    text: "A request that is too long is recognised by the codes and wordings of large providers",
  },
  D557: {
    text: "A response with only calls of unsupported tools, or with the status queued, is an error that says so and is not requested again at once",
  },
  D558: {
    text: "The documents do not recommend native output for a server that then never calls a tool",
  },
  D573: {
    text: "The viewer never resets the connection of a POST that it refuses, whatever the length of its body; a body that never ends is read within bounds",
  },
  D574: {
    text: "A wait for budget between two attempts of a model call is reported and drawn as such, and queuedMs excludes waits for budget",
  },
  D575: {
    text: "The time of a run under a tight budget is divided into waits for budget, waits for a slot or provider limit, and work, to the millisecond",
  },
  D576: {
    text: "The viewer lists an agent that waits for budget under a filter of its own, and not among agents at work",
  },
  D586: {
    text: "The cost of a usage is null instead of 0 if no part of it is known, and the known part otherwise",
  },
  D587: {
    text: "A sum of usages does not depend on their order, and subtracting a part leaves the rest, even with unknown costs",
  },
  D588: {
    text: "A paused run that was stored with a cost of 0 for calls without a price continues, and reports null",
  },
  D559: {
    text: "Mistral's thinking parts are reasoning, streamed and whole, and are sent back unchanged",
  },
  D560: {
    text: "An overflow is recognised in the reported wordings of providers, and limits on rates, output and names are not mistaken for one",
  },
  D565: {
    text: "Over the AI SDK a turn that Anthropic pauses continues with its content sent back, within the limits of the run",
  },
  D566: {
    text: "Over the AI SDK a blocked prompt, or an empty reply with an unknown finish word, ends as filtered after one request",
  },
  D567: {
    text: "Over the AI SDK a compaction summary of the provider is not part of the answer, and is sent back with the next request",
  },
  D568: {
    text: "Over the AI SDK the tokens of an advisor and the cache of a compaction are charged",
  },
  D569: {
    text: "Over the AI SDK encrypted reasoning that only the finish metadata contains is sent back with the next request",
  },
  D570: {
    text: "Below sameOriginFetch a JSON error or a page with status 200 fails with its own message",
  },
  D571: {
    text: "Below sameOriginFetch a bare error line in a stream is reported",
  },
  D572: {
    text: "Below sameOriginFetch deflate and zstd are decoded, and any other encoding is refused by its name",
  },
  D577: {
    text: "After the key n, after an answer and after a stage is closed, the focus is on a question, or on the heading of the screen if none is open",
  },
  D578: {
    text: "In a window of 640 pixels, as at a zoom of 200 %, the key / reaches a visible search field",
  },
  D579: {
    text: "Typed text runs no shortcut, even if its field disappears or during a composition, and holding Enter down sends no answer",
  },
  D592: {
    text: "The viewer shows the typed result of an agent in its overview",
  },
  D593: {
    text: "The title of a browser tab names the run that it shows",
  },
  D594: {
    text: "Each question in the inbox of the viewer names its run",
  },
  D595: {
    text: "Multi-line arguments under approval are shown as text, with their line breaks",
  },
  D596: {
    text: "The viewer measures an agent against its limits by its own usage, without its subagents",
  },
  D597: {
    text: "In the view of a completed run only failures are red",
  },
  D598: {
    text: "A paused run whose questions are all answered is shown as waiting for a process",
  },
  D599: {
    text: "The header of a run shows the message of its root cause, in full where there is room",
  },
  D600: {
    text: "The row of a failed agent or run shows its error code",
  },
  D601: {
    text: "Failed attempts of model calls are visible in the list of steps and in a step",
  },
  D602: {
    text: "Failed attempts of model calls and tools are visible in show, for an agent and for a step",
  },
  D603: {
    text: "The duration of a run is measured from its start to its end, or until now, in the list, the header, the overview, show and runs",
  },
  D604: {
    text: "At 1,280 pixels an open step leaves the timeline visible",
  },
  D561: {
    text: "Each kind of transport fault has the same outcome over Chat Completions, Responses, Anthropic and Gemini, streamed and whole",
  },
  D562: {
    text: "A delay that an error in the middle of a stream states counts like Retry-After, over all four interfaces",
  },
  D620: {
    text: "An answer is sent by Ctrl Enter in its open stage or by its button: neither typed text, a double click nor a disappearing question sends or opens one",
  },
  D621: {
    text: "A redaction receives names of members and numbers, invisible characters of tools and problems are marked, and the page shows a bounded part of any arguments and counts the rest",
  },
  D622: {
    text: "After a text field has disappeared, only text keys and Enter are ignored for a second",
  },
  D615: {
    text: "A cause names the call because of which an agent ended, with the step of that call",
  },
  D630: {
    text: "A result that a program retains keeps neither its run nor the run's context in memory",
  },
  D631: {
    text: "The result of a run whose detached agent is paused is the same whenever it is read",
  },
  D605: {
    text: "A stream that is cut at any byte is the whole reply if its end was read, or else a temporary failure that is charged with the reported input",
  },
  D606: {
    text: "An error, a page or a whole reply in place of a stream is reported in its own words, whatever its content type and form, and a whole reply is charged",
  },
  D607: {
    text: "An error after a complete reply leaves the reply valid without another request, and the input that a failed reply reports is charged",
  },
  D625: {
    text: "The duration and pauses of a run are the same on every page, across open questions, crashes and recoveries",
  },
  D616: {
    text: "A configuration that cannot be loaded ends a command with exit code 2, its line and no secrets",
  },
  D617: {
    text: "Output of tools and the configuration to stdout is redirected to stderr, so that stdout contains only the result",
  },
  D618: {
    text: "tail of a lost run ends and reports that the run is lost and how to resume it",
  },
  D619: {
    text: "The code of an open question in the list of `espalier questions` stays the same after others are answered or asked, and names no other question afterwards",
  },
  D608: {
    text: "A turn that the provider paused and continued has the same text and typed result as one without the pause",
  },
  D609: {
    text: "A response that is queued, or only requests an approval of a server's tool, is an explicit error, whole and streamed, and over the AI SDK",
  },
  D610: {
    text: "Throttling in the wording of a large provider is a rate limit, not a context overflow",
  },
  D611: {
    text: "A delay is read in each common wording, and no other number is mistaken for one",
  },
  D614: {
    text: "A thinking part whose content is a text is reasoning, and is sent back as a text",
  },
  D612: {
    text: "Over the AI SDK, a failed response that lacks fields keeps its code, its message and its delay",
  },
  D613: {
    text: "Searches and tools that a server ran count as its tools wherever the reply shows them, and calls of client tools do not",
  },
  D626: {
    text: "Each of several parallel model calls of one agent has its own waits in its own step, and the agent waits for budget only while none of them runs",
  },
  D627: {
    text: "The wait of each attempt of a model call for its slot is drawn once, after the retry that precedes it, and ends when the call, its agent or its process ends",
  },
  D628: {
    text: "In a trace the wait before a model call is that of its first attempt, as in the viewer; waits of further attempts lie within its span",
  },
  D623: {
    text: "The viewer shows the codes of a failed group, the full error of the run under the cursor, attempts in an open panel as they fail, no limit of a completed agent as a problem, and no working agent in a run without an owner",
  },
  D624: {
    text: "Once a step is completed, the viewer counts its tool calls as the account of the agent does, including calls that a guard or a person denied",
  },
  D665: {
    text: "A viewer that redacts arguments offers no edit of them, and refuses one",
  },
  D543: {
    text: "A question whose arguments change is a new question: keys pressed at that moment open and send nothing, the draft of an answer is discarded, and the page announces the change",
  },
  D655: {
    text: "A response that failed or was cancelled is one error over every client of Responses, is charged with the usage that it reports, and is not requested again once it was cancelled",
  },
  D656: {
    text: "Over the AI SDK, an answer without any event is reported with its content type, and the error names sameOriginFetch as the remedy",
  },
  D657: {
    text: "Reasoning that alternates with text is kept, streamed and sent back in its order wherever the format of its provider has an order",
  },
  D544: {
    text: "A closing panel, step, action or run returns the focus to the element that opened it, or to the row in the list",
  },
  D545: {
    text: "A filter or a search that hides the open or focused element moves the focus to an announced element, keeps the keys working, and shows a notice with a way back",
  },
  D546: {
    text: "At 1,280 and 1,000 pixels and at a zoom of 200 %, rows of failed agents and groups show their error codes in full; several codes of a group are in full without a panel and in the row's title, and an unknown cost is on one line",
  },
  D658: {
    text: "Each kind of transport fault in the tests runs over Chat Completions, Responses, Anthropic and Gemini, and over the first two through the AI SDK, with one outcome",
  },
  D547: {
    text: "The result, the events, the trace, the metrics, the command, the terminal and the viewer have the same tokens, costs, counts of calls and states of each agent and step",
  },
  D548: {
    text: "The remaining budget that a view shows for an agent is its limit without the usage of its subtree, its last tool calls included, and for the root that of the run",
  },
  D549: {
    text: "A failed model call that did not end its step, such as an additional call of a hook, is listed among the failed attempts of the step in the viewer and in show",
  },
  D589: {
    text: "The bar of a budget in the viewer shows how much of a time limit a run has used until now, without its pauses",
  },
  D661: {
    text: "A refusal keeps its Retry-After over each client, even if its content type is that of an event stream",
  },
  D540: {
    text: "Views show the calls of a step in the order of the reply, live and stored, whatever ran, was denied or was answered first",
  },
  D541: {
    text: "A cause names the same call as the error budget, which counts the calls in the order of the reply",
  },
  D662: {
    text: "If several errors end an agent, its reason, its events, the run and the causes all name the same first error",
  },
  D663: {
    text: "A refusal whose body cannot be decoded has the code and the delay of its status and headers over each client",
  },
  D640: {
    text: "Arguments that an MCP tool's schema allows are never refused because of a pattern that is not run",
  },
  D641: {
    text: "A pattern of jsonSchema() means the same as in JavaScript, and a pattern of another language is refused",
  },
  D642: {
    text: "Content on a span beyond the limit is cut with a mark, without splitting a surrogate pair, at the cost of its beginning only",
  },
  D645: {
    text: "A store whose tables have another version is refused by an error that names both versions, and is not changed",
  },
  D646: {
    text: "A journal or a recording of another version, or without its result, is refused by a coded error before anything happens",
  },
  D647: {
    text: "A paused run, a session or a run request of another version is refused by an error that names both versions, before anything happens",
  },
  D650: {
    text: "p-queue is loaded when the first call of a process has to wait for a slot, not on import or by a run without waits",
  },
  D651: {
    text: "A model call or tool body that waited for a slot, a provider limit or its run has the AsyncLocalStorage context and the parent span of its own run",
  },
  D652: {
    text: "A cancelled call leaves the queue at once, and a slot that becomes free at that moment goes to the next call",
  },
  D653: {
    text: "Calls pass the limits of a provider in order: a call that would fit does not overtake one that waits for tokens or a slot",
  },
  D654: {
    text: "A call that finds a free slot takes it in the same tick without queueing, even after other calls have waited",
  },
  D666: {
    text: "The message for a missing parameter is found in bounded time, however often its schema refers to itself",
  },
  D667: {
    text: "A parameter with a misspelt name is reported with the name that was meant, for zod and JSON Schema alike",
  },
  D668: {
    text: "In nested unions that do not match, the deepest problem is named, in less than cubic time in the depth",
  },
  D710: {
    text: "Describing argument problems takes no longer than checking the arguments: few union forms are read again, and the keys of an object are listed once",
  },
  D711: {
    text: "Coercion tries the next form of a union if a rule refuses the value that the first one made",
  },
  D712: {
    text: "A refusal names a rare rule of a JSON Schema by keyword and value, and one of a zod schema by zod's message",
  },
  D669: {
    text: "An option whose name is misspelt by a letter or two swapped ones is refused with the right name",
  },
  D675: {
    text: "The libraries that clean, segment and measure text at a terminal take linear time for any text",
  },
  D676: {
    text: "A row of printed text, of at least two cells, is no wider than the terminal and has at most 32 code units per cell plus those of one more cell; joined, the rows give the text again except for spaces at line breaks",
  },
  D684: {
    text: "HTTP requests that an MCP server refuses authorize one after the other, even for more scope, and a late request uses the token that another one obtained",
  },
  D670: {
    text: "20,002 spans that end in one burst all arrive at an OTLP endpoint over HTTP",
  },
  D671: {
    text: "Lost spans cause one process warning with their count and the last reason, and later losses are in the counts of flush()",
  },
  D672: {
    text: "A dead trace endpoint causes one warning, flush() and shutdown() keep their time limits, and the program ends by itself",
  },
  D673: {
    text: "Spans that wait for a trace endpoint and spans that are being exported never exceed the size of the queue",
  },
  D680: {
    text: "A replay reports a different size or hash in an event only if no state differs",
  },
  D685: {
    text: "The sidebar of the site has the order of a newcomer: get started, core concepts, guides, reference, operations, project",
  },
  D686: {
    text: "The search of the site adds the words of the documents to the words of other libraries, and ranks guides above concepts and both above the reference",
  },
  D687: {
    text: "The home page of the site takes its title, its first paragraph and its commands from README.md, and reports a missing one",
  },
  D688: {
    text: "The animation of the demo has at most 2 MB and 20 seconds, and a still picture for readers who prefer reduced motion",
  },
  D713: {
    text: "A tool call with a slot does not begin if its agent was asked to end meanwhile",
  },
  D720: {
    text: "A row of foreign text fits its width even if its letters are joined into one endless grapheme",
  },
  D721: {
    text: "Text of a trace endpoint or an MCP server in a warning cannot control the terminal",
  },
  D722: {
    text: "Ten million consecutive blanks do not exceed the call stack when a foreign text is shown as one line",
  },
  D723: {
    text: "Usage and text of a tree without background subagents and tight budgets do not depend on which effect ends first",
  },
  D724: {
    text: "A message counts as delivered with the model call that contains it; without that call neither its sender nor the events nor the history report it as read",
  },
  D725: {
    text: "A reply that was admitted before a pause is not evaluated again: its calls run whatever was spent meanwhile",
  },
  D726: {
    text: "An agent that ends while a subtask is paused reports the other subtasks of its queue: the finished ones with their results, and those that were never started",
  },
  D727: {
    text: "toolsUsed counts an external call only if it was executed",
  },
  D728: {
    text: "Elapsed and paused time of an execution count from its start, without earlier waits and executions of the agent",
  },
  D729: {
    text: "The time row of a report counts from the opening of the root's account, over all executions, and excludes pauses only under a limit that pauses do not use up",
  },
  D730: {
    text: "RunError.is, ModelError.is, ToolError.is and ToolRetryError.is are true only for errors of their own kind, including those of another copy of the package",
  },
  D731: {
    text: "assertEvent narrows a value to an event, and throws for an event of an unknown type",
  },
  D732: {
    text: "A finish reason without an equivalent becomes `other`, whichever OpenAI API the reply came from",
  },
  D733: {
    text: "An option at the wrong call is refused with the call or definition to which it belongs",
  },
  D734: {
    text: "The notice to an agent whose text is not a typed result says that the text is not the result as JSON, or that no text is accepted",
  },
  D735: {
    text: "A scripted call of a tool that the request does not have is a script_mismatch, unless the model allows unknown tools",
  },
  D736: {
    text: "An unfinished script names its model and its next reply",
  },
  D737: {
    text: "A plain error in a script is a failure of the model with the message of the error, and is not retried",
  },
  D738: {
    text: "The reason of each limit has its axis, the account, the maximum and the current amount",
  },
  D739: {
    text: "`resume` with the JSON text of a paused run rejects with `invalid_argument` and names `readPausedRun`",
  },
  D700: {
    text: "The workflow runs the gate on the Node of package.json, with a time limit and read permission only",
  },
  D701: {
    text: "Counts of hard words and forms in names, messages, test titles, comments and documents stay within bounds that may only be tightened",
  },
  D702: {
    text: "The index of the examples has each program once, with the command that runs it",
  },
  D740: {
    text: "Each call that does not run reports its index and the message for the model",
  },
  D703: {
    text: "The program on the page for coding agents runs as shown, with and without an approval",
  },
  D704: {
    text: "llms.txt lists each user document once, with a sentence about it, for the package and for the site",
  },
  D745: {
    text: "The demo skips binary files: a read reports a binary file without a failure, and the report counts them",
  },
  D746: {
    text: "In the demo a tool call fails, and the next call corrects it",
  },
  D747: {
    text: "In the demo a limit refuses one delegation, and the lead reads that part itself",
  },
  D775: {
    text: "A run that waited for its slot when its process crashed begins with run.started in the next process, with its whole time limit and without the time in between",
  },
  D776: {
    text: "A run pauses with every paused subagent of a delegation, whatever the code returns or throws after the pause, unless the code has cancelled the subagent",
  },
  D777: {
    text: "An ended or paused run of a store is forked by its id, in any process, like by its snapshot",
  },
  D748: {
    text: "In the demo a tight budget of steps makes one subagent finish early, with a typed result",
  },
  D749: {
    text: "In the demo one subagent asks a question: a key at the terminal answers it, or else its deadline",
  },
  D751: {
    text: "The demo stores its run and ends with commands that work as typed, in a project and in a clone",
  },
  D752: {
    text: "The demo prices its simulated tokens and marks them as simulated",
  },
  D753: {
    text: "In a folder without files the demo explains what it does and what to type",
  },
  D754: {
    text: "At a terminal the demo takes simulated delays, and with --fast or elsewhere none",
  },
  D755: {
    text: "A command without runs, roles or a resumable run names each remedy, and asks for nothing that the remedy does not need",
  },
  D756: {
    text: "Texts about a run do not round used budget to zero, bound a subagent's remaining budget by its parent, give an error code once, and distinguish a pause from an end and an answered run from a working one",
  },
  D757: {
    text: "An answer may name its author with `by`, and `question.answered` reports the name beside the source of the answer",
  },
  D758: {
    text: "`espalier approve`, `deny` and `answer` record the name of --by, or else the login name",
  },
  D759: {
    text: "`espalier resume` at a terminal asks for open approvals: one that is left open stays the same question, and the run stays paused",
  },
  D760: {
    text: "`new Orchestrator` refuses two different roles with one name, also below its roles",
  },
  D761: {
    text: "The arguments of a question are always an object, so that an approval can change a part of them",
  },
  D769: {
    text: "An option under the name of another library, or at the wrong call, is refused with our name and the call that takes it",
  },
  D770: {
    text: "The tree of a run that ended or paused shows each state in full at 80, 100 and 120 columns, and leaves out costs before reasons",
  },
  D771: {
    text: "The list of runs reports a failure to load older runs, and loads them on request",
  },
  D763: {
    text: "A new session can import messages of another program, all or none; runs, forks and other processes continue them",
  },
  D764: {
    text: "`espalier runs --session` lists the runs of one session; the list and its JSON name the session of a run, and a list without sessions has no such column",
  },
  D772: {
    text: "In a run whose process is gone, `espalier show` and the viewer mark each agent at work as lost, with its last activity",
  },
  D801: {
    text: "The loss of an owner that only waited for a slot of its run is not counted as a crash of the run",
  },
  D802: {
    text: "The command passes the context of its configuration to the runs that it starts and resumes",
  },
  D803: {
    text: "The text tree of events shows failed attempts of model calls, questions with their answers, and pauses",
  },
  D804: {
    text: "`espalier questions` indents every line below the first one of a question",
  },
  D805: {
    text: "Ctrl-C at a question of `espalier run` or `resume` pauses a stored run, with its questions open",
  },
  D806: {
    text: "A fork that waited for its slot when its process crashed begins with its origin in the next process",
  },
  D785: {
    text: "A spawn that its approver turns into a continuation gives its place to later calls of the reply",
  },
  D786: {
    text: "A run that was released or lost while it paused asks its approver each open question once when it is resumed",
  },
  D787: {
    text: "`orchestrator.listQuestions` returns the open questions of all runs of the store, active or paused, without those that have a saved answer; a run that cannot be read is listed in `failed` and hides no other",
  },
  D788: {
    text: "An answer or a command that reaches a run of this process while it pauses continues the run, also if its mailbox was read before",
  },
  D795: {
    text: "The command that `espalier run` and `espalier resume` suggest next names the program, role folder and model of the run, and resumes it",
  },
} as const satisfies Readonly<Record<string, Requirement>>;

export type RequirementId = keyof typeof requirements;

export const REQUIREMENTS: Readonly<Record<RequirementId, Requirement>> = requirements;
