// Every promise of the product, by id. Tests cite the ids that they prove; an id that no test cites must be marked as planned.

export interface Requirement {
  readonly text: string;
  /** Promised for a later release; no test need cite it yet. */
  readonly isPlanned?: true;
}

const requirements = {
  R1: { text: "One loop owns control flow; run is iterate drained, not a second implementation" },
  R2: {
    text: "Six phases (prepare, infer, evaluate response, execute tools, applyToolResults, evaluate continuation), each its own yielded step type",
  },
  R3: {
    text: "The caller can intercept between any two phases, in particular between the model reply and tool execution",
  },
  R4: { text: "Abandoning the iterator (break, return, throw in the consumer) is safe" },
  R5: { text: "Stop conditions are checked before the first inference, too" },
  R6: { text: "A reply without tool calls ends the run as completed" },
  R7: {
    text: "A fresh run always performs its first inference: 'no work signal yet' is not 'finished'",
  },
  R8: {
    text: "A final answer arriving exactly on the last allowed step is a completion, not a limit stop",
  },
  R9: {
    text: "Presence of tool calls decides, the provider's finish reason is only a secondary signal",
  },
  R10: {
    text: "Finish reasons are normalised and each has a defined effect (stop, length, content_filter, other, tool_calls, unknown, error)",
  },
  R11: {
    text: "Empty replies are asked for again, a bounded number of times; a text with an unknown finish reason is an answer",
  },
  R12: { text: "The abort signal is checked at the top of each turn and reaches driver and tools" },
  R13: { text: "Pending subtasks are worked off before the next inference" },
  R14: {
    text: "Context overflow triggers compaction and then continues; it is not an error and not a model step",
  },
  R15: {
    text: "A step returns an explicit outcome continue, stop, compact or retry",
  },
  R16: { text: "One failure path: driver, hook and processor errors land in one handler" },
  R17: { text: "iterate yields the state after every step, the last one included" },
  R18: { text: "Each step is completed exactly once on every path" },
  R19: { text: "Limits are evaluated after the reply and before its tools run" },
  R20: { text: "Limits are evaluated before each request and again after token counting" },
  R21: { text: "A stop signal raised in any phase takes effect before the next phase begins" },
  R22: {
    text: "Several stop signals are resolved by priority (error, stop requested, user, steps, tokens, time, cost, retry/error budget, finish reason, completed), not by arrival",
  },
  R23: { text: "All stop signals are recorded, none silently ignored" },
  R24: {
    text: "A stop hook may ask once more for continuation, bounded, and never against a hard limit or a cancel",
  },
  R25: {
    text: "The model driver is an exchangeable contract; a scripted driver runs the whole library offline",
  },
  R26: { text: "Explicit status paused (not running, not completed)" },
  R27: { text: "Pausing yields a typed collection of deferred calls" },
  R28: { text: "resume(state, results) continues the same execution" },
  R29: { text: "Both kinds: needs approval, and executed elsewhere" },
  R30: { text: "Supplied results are validated before anything runs" },
  R31: { text: "A paused state survives serialisation" },
  R32: {
    text: "Sibling calls that need no input run before the pause; their results are kept",
  },
  R33: {
    text: "An in-process approver may answer at once; without one the run pauses",
  },
  R34: {
    text: "Time spent waiting for an answer does not consume the time limit",
  },
  R35: {
    text: "Outcome is explicit for every way of ending: completed, step, token, time limit, error, aborted",
  },
  R36: { text: "The run returns a result with steps, status, reason, usage and final text" },
  R37: { text: "Execution is never null: a pending status exists before the first run" },
  R38: { text: "No silent creation of state on access ('ensure' pattern)" },
  R39: { text: "State transitions are validated" },
  R40: { text: "Immutable configuration is separate from per-run state" },
  R41: { text: "State is made of conversation, run log and telemetry parts" },
  R42: { text: "High-level transition methods (record step, fail with, add time, mark started)" },
  R43: { text: "A step is made of input/output, tools and telemetry parts" },
  R44: { text: "State values are immutable; each change gives a new value" },
  R45: {
    text: "One transient holder per step (input messages, reply, tool executions, output messages, errors, timestamps), cleared after the step and after an error",
  },
  R46: { text: "No agent state embedded in results, contexts or events" },
  R47: { text: "Serialisation is stable and versioned, ignores transient data" },
  R48: { text: "Stop reason is set explicitly, never inferred from class names" },
  R49: {
    text: "Optional abilities are declared by interfaces, not by probing for methods",
  },
  R50: {
    text: "Stop conditions are composable values returning a reason or nothing",
  },
  R51: { text: "A stop reason is a value with code, message and context data" },
  R52: { text: "Max steps" },
  R53: { text: "Max tokens (input, output, total)" },
  R54: { text: "Stop when a named tool was called, judged on the last step only" },
  R55: { text: "Stop on a finish reason" },
  R56: { text: "Max execution time" },
  R57: { text: "Max cost, where unknown price is not zero" },
  R58: { text: "Absolute deadline next to relative time" },
  R59: { text: "Or combination" },
  R60: { text: "And combination" },
  R61: {
    text: "Guards (may force a stop) and work signals (ask to continue) are separate lists",
  },
  R62: {
    text: "Conditions may be async; a throwing or rejecting condition fails the run visibly",
  },
  R63: { text: "Conditions hold no state across runs" },
  R64: {
    text: "Optional wrap-up: on the last allowed step the model is asked to finish and gets no tools",
  },
  R65: { text: "Tool guard returns allow, deny or ask" },
  R66: {
    text: "deny beats ask beats allow, whatever the order; a throwing guard denies",
  },
  R67: {
    text: "A denied call becomes a tool result the model can read, and the loop continues",
  },
  R68: {
    text: "ask leads to approver, else pause; in declared non-interactive mode to deny",
  },
  R69: {
    text: "The reason of deny and ask is carried to model, events and audit",
  },
  R70: { text: "Tool blocking and loop continuation are separate channels" },
  R71: {
    text: "Blocked is its own error type and an error policy may turn it into a stop",
  },
  R72: {
    text: "Guards of a call are evaluated independently of each other's order; all answers recorded",
  },
  R73: {
    text: "Arguments changed by a hook or approver are validated and guarded again before execution",
  },
  R74: {
    text: "Three identical consecutive calls trigger an ask, not an automatic stop",
  },
  R75: {
    text: "A subagent cannot do what its parent is forbidden to do; a parent's mere lack of a tool is not a prohibition",
  },
  R76: {
    text: "Observation callbacks return nothing and cannot change flow; their errors are isolated",
  },
  R77: {
    text: "Step-finished and execution-finished callbacks exist; the latter fires on every ending",
  },
  R78: { text: "Messages can be changed before inference" },
  R79: {
    text: "System prompt and tool arguments can be changed by input/output hooks",
  },
  R80: { text: "A hook may only change the fields its trigger allows" },
  R81: { text: "Hooks of one chain see the changes of earlier hooks" },
  R82: {
    text: "Changes made during tool execution are not lost: the executor returns them",
  },
  R83: { text: "Hook order is deterministic" },
  R84: {
    text: "Registration filters by trigger; one- and two-argument callbacks",
  },
  R85: { text: "Hooks can be limited to tools by name" },
  R86: { text: "Around-behaviour for model call and tool call" },
  R87: {
    text: "Hooks, guards, conditions and processors have names that appear in signals, blocked events and audit",
  },
  R88: { text: "Ordered post-step processors" },
  R89: {
    text: "Life-cycle hook points: run start and end, user input, before and after tool, before compaction, stop, subagent start and stop, notification",
  },
  R90: { text: "User input can be intercepted and refused before a run starts" },
  R91: {
    text: "A stop of a subagent can be observed and vetoed like a stop of the root, bounded",
  },
  R92: { text: "There is one flow-control channel; no second system in parallel" },
  R93: { text: "Section registry: role, order, life cycle declared" },
  R94: {
    text: "Custom sections are registered with explicit order and are really sent",
  },
  R95: { text: "Clearing a section is announced by an event" },
  R96: {
    text: "History processors transform the list before each inference, composable",
  },
  R97: {
    text: "After processors the list is valid: no orphan result, no dangling call",
  },
  R98: { text: "Messages carry step id and execution id (and agent id)" },
  R99: { text: "Messages of a failed execution can be removed by tag" },
  R100: {
    text: "Token budget check before inference with strategies truncate, summarise, error",
  },
  R101: {
    text: "Token counting is pluggable; provider usage preferred, estimate otherwise and marked as estimate",
  },
  R102: { text: "Border between prior history and new messages of this run" },
  R103: { text: "Arguments are validated against the schema: types" },
  R104: { text: "Enum and other constraints" },
  R105: { text: "Required fields" },
  R106: { text: "Safe coercion only ('123' to 123)" },
  R107: {
    text: "A tool can ask the model to try again (retry exception with feedback and context)",
  },
  R108: { text: "'Please retry', 'failed' and 'succeeded' are distinguishable" },
  R109: {
    text: "Retries are counted per tool; reset when that tool succeeds, untouched by other tools",
  },
  R110: { text: "When the maximum is exceeded the outcome is defined" },
  R111: {
    text: "Large results are truncated with a notice giving real size and shown size",
  },
  R112: { text: "Optional summarising of large results by a model call" },
  R113: {
    text: "Argument-leak filter compares strictly and logs what it filters",
  },
  R114: {
    text: "Results are serialised canonically (objects, arrays, null, undefined, errors, binary)",
  },
  R115: {
    text: "An unknown tool name gives a result with the available names; other calls of the reply still run",
  },
  R116: { text: "Wrapper: approval required" },
  R117: { text: "Wrapper: rate limit per time window" },
  R118: { text: "Wrapper: time limit with abort" },
  R119: { text: "Wrapper: automatic retry with policy (not via the model)" },
  R120: { text: "Wrappers compose in a defined order" },
  R121: { text: "Toolsets can be filtered, prefixed, renamed and combined" },
  R122: { text: "Tools declare max retries, timeout, approval" },
  R123: { text: "Tools can be filtered per step by state" },
  R124: {
    text: "A filtered or removed tool cannot be executed even if the model calls it",
  },
  R125: {
    text: "Calls of one reply may run in parallel under a cap; results in call order; sequential tools are barriers",
  },
  R126: { text: "Spawn tool with a registry of agent definitions" },
  R127: { text: "By default the child starts fresh: own prompt plus task" },
  R128: { text: "Policy: inherit messages, last N" },
  R129: { text: "Policy: inherit metadata, all or by key" },
  R130: { text: "Policy: additional context injections" },
  R131: { text: "Allow and deny lists for child tools" },
  R132: {
    text: "Filtering is auditable: event and record of which tools were removed and why",
  },
  R133: {
    text: "A tool in both lists is denied and reported, not silently resolved",
  },
  R134: { text: "The child reads what it cannot do" },
  R135: {
    text: "Structured subagent result: text, steps, tools used, budget consumed, metadata, status",
  },
  R136: { text: "Failure details come back in the result; the parent continues" },
  R137: { text: "Maximum depth (default 3)" },
  R138: { text: "Maximum children per parent (default 5)" },
  R139: { text: "Maximum subagents in the tree (default 10)" },
  R140: { text: "Counts per depth level are tracked and visible" },
  R141: {
    text: "Limits hold under parallel spawning; refused or failed spawns give the slot back",
  },
  R142: {
    text: "Child budget = smaller of its definition and what the tree has left, per dimension",
  },
  R143: { text: "Actual consumption of the child is deducted from the parent" },
  R144: { text: "Parallel children together cannot exceed the tree budget unnoticed" },
  R145: { text: "Budgets and usage work over several levels" },
  R146: { text: "Events for spawn, completion, refusal and failure of subagents" },
  R147: { text: "The parent's history holds only the spawn call and the result" },
  R148: {
    text: "Cancelling a parent cancels all descendants; a child cancelling itself does not cancel the parent",
  },
  R149: {
    text: "Approval requests of descendants reach the root with their path, and answers find their way back",
  },
  R150: { text: "Optional visibility of sibling results" },
  R151: {
    text: "The child can be given constraints and failed attempts of the parent",
  },
  R152: { text: "Execution boundary marker between executions" },
  R153: { text: "Retention: max messages (default 100)" },
  R154: { text: "Retention: max executions (default 5)" },
  R155: { text: "Optional summary of what was dropped (default off)" },
  R156: { text: "Fork up to step N" },
  R157: { text: "A fork is independent of its origin" },
  R158: { text: "Next execution starts from a defined state" },
  R159: {
    text: "Severity classes retryable, recoverable, fatal (this call), abortive (whole run)",
  },
  R160: {
    text: "Every error source is mapped to one classification (validation, execution, blocked, stop request, driver, timeout)",
  },
  R161: {
    text: "Validation message holds parameter, expected type, received value and a hint",
  },
  R162: { text: "Execution message holds tool name, error type and hint" },
  R163: { text: "Timeout message holds tool and limit and a hint" },
  R164: { text: "Error budget: max tool errors (default 5)" },
  R165: { text: "Error budget: max consecutive errors (default 3)" },
  R166: { text: "Error budget: max retry errors (default 10)" },
  R167: {
    text: "Provider errors are classified; retryable ones retried with backoff and not counted as steps",
  },
  R168: {
    text: "A tool error the model recovered from does not make the run failed",
  },
  R169: {
    text: "Tools get a read-only context: agent id, step number, call id, retry count, max retries, metadata, messages",
  },
  R170: { text: "Each parallel call has its own context" },
  R171: { text: "Spawning is a service in the context, not access to the state" },
  R172: {
    text: "Each step has a context snapshot: model, tool names, prompt hash, budget at start, step number",
  },
  R173: {
    text: "Model parameters, tool definitions and the prompt text are recoverable",
  },
  R174: { text: "Sub-step timing: inference, tools, hooks, formatting" },
  R175: { text: "A recorded run can be replayed without a model" },
  R176: {
    text: "All events carry execution id, step id, call id where it applies, parent agent id for children",
  },
  R177: {
    text: "Typed event payloads, e.g. tool completed with name, ids, duration, success, error type, usage",
  },
  R178: { text: "OpenTelemetry spans with gen_ai attributes and version-aware names" },
  R179: { text: "Event order is fixed by golden traces, failure paths included" },
  R180: { text: "Continuation evaluated event at every evaluation" },
  R181: { text: "Token usage is reported per step and in total" },
  R182: {
    text: "Exactly one terminal event per execution (finished, failed, stopped, cancelled) with the true status",
  },
  R183: { text: "The loop is small, flat and readable in one place" },
  R184: { text: "No adapters, no second legacy API" },
  R185: {
    text: "Four suites: golden trace, state transition, continuation, serialisation",
  },
  R186: { text: "Loop overhead is measured before and after changes" },
  R187: { text: "Documentation of loop, events and extension points" },
  X1: {
    text: "Every model call in the tree, auxiliary ones (summaries, compaction, structured-output repair) included, holds a reservation: counted input plus output cap, taken from its own account and every ancestor at once; the output cap is clamped to what is left",
  },
  X2: {
    text: "A reservation that does not fit now but may fit when calls in flight settle waits, first come first served; one that can never fit is refused at once, naming the tightest ancestor and axis",
  },
  X3: {
    text: "Axes: input, cached-input, output and total tokens, cost, steps, tool calls, wall time. Each may be limited at any level; the tightest on the path wins",
  },
  X4: {
    text: "How a parent shares its budget with children is a policy: pool (default, capped share of the common rest), fixed, even, weighted; what a child does not use goes back",
  },
  X5: {
    text: "A parent can keep a reserve for its own closing answer that children cannot take",
  },
  X6: {
    text: "The rest of the budget can be shown to the model; thresholds (80 %, 95 %) raise an event once each",
  },
  X7: {
    text: "More budget can be granted to a running or stopped tree; the grant is a recorded event with its author",
  },
  X8: {
    text: "Settlement law: every spawn ends exactly once with a terminal status, whatever ended it (answer, limit, error, cancel, crash and recovery)",
  },
  X9: {
    text: "A run cannot end while children live; the role chooses await (default), cancel or detach",
  },
  X10: {
    text: "Children run in the foreground or in the background. A background spawn returns a receipt at once; the result arrives as a message at the next step boundary; the parent can list, wait (with timeout), message and cancel; calling again with the child's id continues an idle child with its history",
  },
  X11: {
    text: "Failure policy for children started in one reply: isolate (default), fail fast (abort and await the siblings), quorum of n",
  },
  X12: {
    text: "The result of one child can be handed to another by id, verbatim, inside a frame the text cannot forge",
  },
  X13: {
    text: "What a child received is recorded: counts and hashes of inherited messages, metadata keys, injections, removed tools (context manifest), on the spawn event and span",
  },
  X14: {
    text: "A refusal is an instruction to the model: which limit, current and maximum, what to do instead; refusals are counted by code in the result",
  },
  X15: {
    text: "Empty output is no_output, cut-off output is partial; neither is success",
  },
  X16: {
    text: "Limits, denials and deadlines are inherited and can only be tightened on the way down",
  },
  X17: {
    text: "An approval is bound to the exact call and arguments (hash), decided once (first writer wins), idempotent, with an optional deadline and a defined outcome when no answer can come",
  },
  X18: {
    text: "One definition of usage everywhere: own, descendants, total, by role, by model; never counted twice",
  },
  X19: {
    text: "Tree-wide concurrency limits for model calls and tool calls; a parent waiting for children holds no slot",
  },
  X20: {
    text: "Typed result: with an output schema the agent must call a finish tool whose arguments are the result; validation errors go back to it; bounded",
  },
  X21: {
    text: "Doom loops are also detected across delegations (same role, same task, again and again)",
  },
  X22: {
    text: "One ordered event stream per run with agent path, depth and sequence number; filtered per agent; bounded backlog per subscriber with a declared overflow policy",
  },
  X23: {
    text: "A running agent can be steered from outside; the caller learns at which step it was delivered, or why not",
  },
  X24: { text: "A whole tree can be forked at a step of its root" },
  X25: {
    text: "A recorded tree replays deterministically, parallel interleavings included",
  },
  X26: {
    text: "Roles can also be read from Markdown files with front matter, checked with the same schema",
  },
  X27: {
    text: "A parent may let the model write a role at spawn, within bounds (tools, models, budget) that it cannot raise",
  },
  X28: {
    text: "Tools from MCP servers (stdio and streamable HTTP) are toolsets like any other: filtered, prefixed, guarded, traced",
  },
  X29: {
    text: "Providers: OpenAI Chat Completions and Responses, any compatible server, and any Vercel AI SDK provider through one adapter",
    isPlanned: true,
  },
  X30: {
    text: "Unknown price is unknown, never zero; prices come from a maintained, dated table and can be overridden",
  },
  X31: {
    text: "The request prefix is stable (instructions, tools in fixed order, history append-only) so that provider prompt caches hit",
  },
  X32: {
    text: "Stop conditions have and, or and not, and report which one fired",
  },
  X33: {
    text: "Cancelling is leaf first, bounded in time, with the reason visible in every result",
  },
  "S7.1": {
    text: "A usage figure that cannot be true (no safe non-negative integer, or over ten times the counted input plus the cap) is replaced by our own count, flagged as estimated and said once; no operation of the ledger can be left half done; a journal with such a figure can be read",
  },
  "S7.2": {
    text: "A retry is paid for from what is really left: losses of earlier attempts count before the next attempt is asked for",
  },
  "S7.3": {
    text: "The client itself holds the cap: a reply is cut at twice its cap, and a body over 16 MiB or a line without an end is model_protocol_error, not retried, in bounded memory; each is charged by what came, at most twice the cap",
  },
  "S7.4": {
    text: "A pattern in a schema that an MCP server sends is neither compiled nor run, and cannot freeze the process; the rest of the schema is checked",
  },
  "S7.5": {
    text: "Durations, deadlines and budgets of time run on a monotonic clock; a wall clock that is set changes no limit and no duration",
  },
  "S7.6": {
    text: "A custom fetch carries neither credentials nor prompts to another origin; only a 307 or 308 at the same origin is followed, at most five times",
  },
  "S7.7": {
    text: "A reserve, cached prices dearer than fresh ones, the heartbeat of a live run, what conditions are given, time in pauses, tasks in telemetry and streamed reasoning each have a test that finds them broken",
  },
  "S7.8": {
    text: "At a resume every call that was approved passes its schema and the guards again as they are now; an answer covers exactly the call that was shown",
  },
  "S7.9": {
    text: "An approver that throws or rejects: what went wrong reaches the event, the question and, with unanswered deny, the model",
  },
  "S7.10": {
    text: "The reason of an ask guard and of a hook's deny reach model, event and step log; a hook's deny counts as one more deny beside the guards, which are still asked",
  },
  "S7.11": {
    text: "A guard or hook of the orchestrator whose tool names match no tool warns; a deny list of a spawn request may name tools that the child lacks, a policy may not name unknown ones",
  },
  "S7.12": {
    text: "Impossible spawns of one reply are refused before an approver is asked, counting those ahead of them in the same reply",
  },
  "S7.13": {
    text: "A reply cut by the output limit says so: to the model, with the number of tokens and what to do, and in the reason, with what set the limit",
  },
  "S7.14": {
    text: "An unknown finish reason with text is an answer; only an empty reply is useless",
  },
  "S7.15": {
    text: "A request that the provider refuses as too long is no step and no error when compaction answers it",
  },
  "S7.16": {
    text: "After an abortive tool error, a spent error budget or a stop nothing further of the same reply begins, calls under way are aborted and its subagents cancelled; each call has its one result",
  },
  "S7.17": {
    text: "agent.ended, run.ended and the result list all stop signals in order of arrival; the result has the errors of the whole tree, first cause first",
  },
  "S7.18": {
    text: "A stop hook that is overruled by its bound: the reason says so",
  },
  "S7.19": {
    text: "allOf remembers which parts have fired and asks each part once per check",
  },
  "S7.20": {
    text: "fork(0) gives the first input again; a run paused in its first step can be forked; a fork may bring a role of its own under a name that the registry knows",
  },
  "S7.21": {
    text: "A set-up that fails after admission gives its places back whatever threw, and the spawned child ends in the events and the result",
  },
  "S7.22": {
    text: "tool.started is said only of calls that are run; calls that are refused, unknown or invalid have one event of their own; step records hold arguments as written and as run",
  },
  "S7.23": {
    text: "Errors of tools are cut like any result; a result of a delegation that must be shortened stays valid JSON with its outcome",
  },
  "S7.24": {
    text: "processStep is called for completed steps only; SpawnSubagent with continue needs no role; a window too small for a summary is an error at defineAgent",
  },
  "S7.25": {
    text: "A call whose arguments are no JSON object goes back over the wire as a parseable object; a 500 that follows our own correction is not retried blindly",
  },
  "S7.26": {
    text: "continue with includeResultsFrom, newRole or another role is done or refused with the reason, never dropped in silence",
  },
  "S7.27": {
    text: "A tightened time limit stands in the manifest and raises thresholds like every other axis; a tool that a rule or guard forbids counts as a refusal of spawning",
  },
  "S7.28": {
    text: "A further attempt that the budget refuses ends like any refused lease; one that may fit once siblings settle waits",
  },
  "S7.29": {
    text: "Step events and named side calls add up to the result's usage, by one function of ours",
  },
  "S7.30": {
    text: "A fresh execution starts with retry counters and error budgets at zero; of two answers to one pause the second is refused within a process",
  },
  "S7.31": {
    text: "Every exported span lies within its parent, to the microsecond",
  },
  "S7.32": {
    text: "A thousand agents make a handful of traces; a run below 5,000 spans stays one; queue_wait only where the wait is worth a row, with the tool's name",
  },
  "S7.33": {
    text: "An unknown cost is on no span as 0 and in no live view as $0",
  },
  "S7.34": {
    text: "A wait that ended at a resume is findable as a duration; names distinguish siblings within the columns that Jaeger shows",
  },
  "S7.35": {
    text: "Refused, denied, stopped and crashed spans carry their outcome by one documented table; resource attributes say process, host and version",
  },
  "S7.36": {
    text: "The first program prints why a run failed, a run can reject with its reason, a failing store is loud, the demo's exit code says how it ended",
  },
  "S7.37": {
    text: "Errors of the first hour help; start takes a signal; an orchestrator lists, finds, recovers and closes its runs",
  },
  "S7.38": {
    text: "An MCP server that answers 401 is reported as that, with what to hand over",
  },

  M1: {
    text: "What a model wrote besides text and calls goes back to it byte for byte and in order, through journal, pause, recovery, fork, session and inheritance",
  },
  M2: {
    text: "Nothing of it reaches a model with another replay key, and it is there again when its writer continues",
  },
  M3: {
    text: "Whatever was done to a history: what goes out says what its messages say, no reasoning stands alone, and none before calls other than its own",
  },
  M4: {
    text: "A message is written once per message and replay key; the text of a request is a prefix of the next one, parts included",
  },
  M5: {
    text: "A reply whose parts do not fit is refused with the part named; provider data is in no trace, log or live view",
  },
  M6: {
    text: "Chat Completions: reasoning and what belongs to it come and go in the form that the server has for them",
  },
  M7: {
    text: "Each recorded Chat Completions reply results in what it must, whole, in pieces of 61 bytes, with CRLF and with a BOM",
  },
  M8: {
    text: "An overflow is known by the words of many servers; a call that the server would not take is corrected like any bad call; a filtered choice is an ending; usage counts however a server writes it",
  },
  M40: {
    text: "A role says how its model answers: its settings go into each of its requests, into its step records, events and spans; what forces a call holds for the first step",
  },
  M41: {
    text: "No lease is below the least cap that a model takes; a key of the provider's cache is the same for all agents of a role as defined",
  },
  M42: {
    text: "What a provider left out of a request is said once in a run, as an event, never on the console",
  },
  M43: {
    text: "The demo and the first program run end to end over Responses as over Chat Completions, by the types of both",
  },
  M20: {
    text: "Requests go over Node's own http and https: sockets are used again, and idle ones do not keep the process alive",
  },
  M21: {
    text: "A reply that comes as gzip or brotli is decoded; that is asked for only where nothing is streamed",
  },
  M22: {
    text: "What a compressed body holds is bounded as a plain one is, and so is what holds nothing; one that is not in its encoding is reported as that",
  },
  M23: {
    text: "The way to the server is through the proxy that the environment or the option names; where Node cannot go through one it is said at once",
  },
  M24: {
    text: "A 307 or 308 within the origin is followed; any other redirect is refused, and both origins are named",
  },
  M25: {
    text: "The key reaches the server that was named and no other: no redirect, no CONNECT of a proxy, no message of an error has it",
  },
  M26: {
    text: "An abort reaches the socket in whatever state the request is, and the server sees it close",
  },
  M27: {
    text: "A socket that the server closed while it was idle costs no attempt; a request that the server may have seen is not repeated",
  },
  M28: { text: "A server that cannot be reached in ten seconds is given up" },
  M29: {
    text: "A program that uses the package runs when it was bundled by esbuild, as ESM and as CommonJS, or by Vite",
  },
  M30: {
    text: "Every language model of the AI SDK 7 is a model: its parts result in one reply, in order, with what its provider says of each; what is none is refused with what to do",
  },
  M31: {
    text: "What a provider of the AI SDK gave with a reply goes back to that model byte for byte, and to no other",
  },
  M32: {
    text: "No provider of the AI SDK is asked for more output than the cap, whatever is said of reasoning",
  },
  M33: {
    text: "A call over the AI SDK fails by status and words, ends at its deadline and at an abort whether or not it is obeyed, and an endless stream costs a bounded amount",
  },
  M34: {
    text: "Each recorded reply of Anthropic and Gemini results in what it must, whole, in pieces of 61 bytes, with CRLF and with a BOM",
  },
  M35: {
    text: "An agent with tools runs to its end over every provider of the AI SDK, over a pause and a change of the model, too, within its budget",
  },
  M36: {
    text: "A request says over the AI SDK all that this has words for, and warns of the rest; warnings of providers are reported",
  },
  M37: {
    text: "The demo takes a model of the AI SDK where its package is installed; any other name goes unchanged to the server that it is pointed to",
  },
  M38: {
    text: "Arguments that are no JSON object go to the providers of the AI SDK as one that holds what the model wrote",
  },
  M46: {
    text: "Importing the root loads two files, and neither the provider's client, nor a validator, nor a schema that is not used yet",
  },
  M10: {
    text: "A Responses stream results in the reply or the error that its events say, in whatever order, pieces and dress they come; events that are unknown, or only repeat the request, are not read",
  },
  M11: {
    text: "What a failure over Responses means is known by its code, its status and its words; a server that has no such interface is distinguished from one that has no such model",
  },
  M12: {
    text: "A reply over Responses is bounded like one over Chat Completions, whichever events bring it",
  },
  M13: {
    text: "A Responses request is stateless: all that the model wrote goes back in order, without ids, and nothing is kept at the provider",
  },
  M14: {
    text: "Over Responses, one message is another text for another model; the text of a request is a prefix of the next one",
  },
  M15: {
    text: "What a provider cannot read of earlier replies, or cannot seal of new ones, is left out within the attempt, said once, and not sent again",
  },
  M16: {
    text: "openai() speaks Responses at OpenAI itself, Chat Completions elsewhere, and either as the option says",
  },
  M17: {
    text: "Settings of a model and of a request are fields of what is sent; one that the interface cannot carry is refused, not dropped",
  },
  M18: {
    text: "Each recorded Responses reply results in what it must, whole, in pieces of 61 bytes, with CRLF and with a BOM",
  },
  M19: {
    text: "A schema that has a strict form is sent in it where that is asked for, and what fits it fits the schema once the added nulls are taken out; one that has none is refused with the path",
  },
  M52: {
    text: "A text that is JSON, or whose one fenced block is, is taken for the typed result if it fits and the reply ended by itself; else the model reads what does not fit; a hook that watches Finish is not gone past",
  },
  M53: {
    text: "A typed result is asked for natively where the model can, in every request beside the tools, and by Finish elsewhere, where hooks watch Finish and where the role chooses it; native of a model that cannot is refused when the role is defined, or at the start",
  },
  M54: {
    text: "Without Finish, a text without calls is the result if it fits; what does not is corrected, twice at most; one that its cap ended is a cut, not a miss",
  },
  M55: {
    text: "The schema of a typed result is in each wire's own field for it, strict if it has a strict form: over Responses, over Chat Completions and over the providers of the AI SDK",
  },
  M56: {
    text: "A result that is a list or a choice of forms stands under one key for the model, and without it for the user; who leaves the key out has said the same, and nulls that a strict form has brought in are taken out",
  },
  M57: {
    text: "In the last step that the budget allows the model is made to give its result, with all tools still listed, where it obeys a choice; elsewhere it has no other tools. A provider that refuses this under reasoning is not forced",
  },
  M58: {
    text: "The schema of a result is counted with the tools, is part of the cache key and of what a request begins with, stands in the step's record, and is the same after a recovery",
  },
  M59: {
    text: "A span says that its model was held to a schema, over which interface of OpenAI's it was asked, and at which service tier it was asked for and served; it says nothing where nobody does",
  },
  M51: {
    text: "A provider is waited for as long as it asks for, or a tenth longer, else up to eight seconds, half of which is by chance; a call that is to wait longer than `retryPolicy.maxDelayMs` fails at once, with that time in its error",
  },
  M65: {
    text: "`modelLimits` holds for all models, runs and orchestrators that share it: never more requests under way than `maxConcurrentRequests`, first come, first served over runs; who is to end leaves the line and takes nothing; a call that waits has no slot, and its wait is `queuedMs`",
  },
  M66: {
    text: "Requests and tokens come back by the minute, and what a reply did not use at once; a request larger than a minute's tokens goes alone, and is warned of; a Retry-After holds up all who share the limits, and fails at once whom it holds up too long",
  },
  M67: {
    text: "`withFallback` asks its models in order within one attempt, without a wait; one that failed is passed over for a while, the writer of open calls is asked first, and each is sent its own reasoning alone; what is no list of different models is refused",
  },
  M68: {
    text: "A fallback is leased at its dearest price, and each of its models is charged at its own: the reply at the one that answered, what was lost at the one that lost it; events, spans, `usage.byModel` and prices say so, over pauses, recoveries and replays",
  },
  M69: {
    text: "A provider that ignores its cap overspends a budget by at most what one request exceeds its lease, per agent, at any number of attempts and fallbacks",
  },
  M50: {
    text: "A small slip in the JSON of arguments costs no further model call: a comma too many or too few, single quotes or a comment are mended if the reply ended by itself, nothing is open at the end, the tool may be repeated and the arguments fit; hooks and guards see what was meant, step and trace say so, and a call that would be asked about goes back to the model",
  },
  F1: {
    text: "What was said of a step since the last reset is its reply, wherever a stream breaks",
  },
  F2: {
    text: "Texts, reasoning, calls, their arguments and results of tools are said as they come, numbered, per agent",
  },
  F3: {
    text: "What was said in vain is taken back by a reset: a retry, a reply that is thrown away or becomes another one, a crash",
  },
  F4: {
    text: "A late reader of pieces reads replies under way from their beginning; a slow one fails alone",
  },
  F5: {
    text: "run.events({ from }) gives the past from the journal, then live events, without gap or repeat, also over a crash; an error where the past is not kept",
  },
  F6: {
    text: "A run as server-sent events goes on after Last-Event-ID, ends with the result, and keeps a silent connection alive",
  },
  M60: {
    text: "A price has tiers by the length of the input and rates for cache reads and writes; a tier holds for its whole request, and each request of a call is charged by its own length",
  },
  M61: {
    text: "A lease is held at the tier of the counted input plus a tenth and settled at the real one: a cost limit is passed by no more than what one call cost beyond its lease",
  },
  M62: {
    text: "What a provider says that a call cost is charged in place of the price, also where there is none; if it is over twice the price, the run is warned once",
  },
  M63: {
    text: "A model's own price goes before those of the orchestrator, those before our table; they are looked up by base URL or provider, never by the model's name alone, once a model at the start; what is not found is unknown",
  },
  M64: {
    text: "At another service tier than the standard one a published price does not hold: asked for, the price is unknown unless it is given; said by the reply, the call counts as unpriced",
  },
  E40: {
    text: "A run is led by a worker that has its role in its version, whoever asked for it, whether one serves already or only later; other workers leave it alone",
  },
  E41: {
    text: "A run of a role that no worker ever had in this version is refused (`unknown_role`), at once and for later",
  },
  E42: {
    text: "However many leads of a run come from however many places, one of them is led at a time; what came while it was led is led once more, after it",
  },
  E43: {
    text: "A lead for later is led then, not before; it holds no earlier one up; a run that waits until a time is led again then",
  },
  E44: {
    text: "A run that could not be led is led again, as often as it takes, after waits that grow to some seconds",
  },
  E45: {
    text: "A worker that closes takes nothing more, has all its runs left, waits until they have settled, and what it left is led elsewhere at once",
  },
  E46: {
    text: "A worker has no more runs at once than it has room for, over all its roles",
  },
  E47: {
    text: "Roles and versions may have any name, also in an engine whose own names may not",
  },
  E48: {
    text: "A worker that is killed or frozen has its runs led by another one within 35 s",
  },
  E49: {
    text: "What a worker says of a run that is led elsewhere by then does not count; it is told to leave it, and leads it again only after it has",
  },
  E50: {
    text: "A run may be led, and may wait, for any time while its worker lives: no limit of the engine ends it or forgets it",
  },
  E51: {
    text: "A database that goes away while a worker serves ends no process; the worker goes on when it is back, and nothing is lost",
  },
  E52: {
    text: "An engine that cannot be used says so (`engine_failed`, with its cause and what to do; `missing_package` for a package that is not installed), and is tried anew when it is next asked",
  },
  E53: {
    text: "An engine may be given the user's own instance: it stays the user's, and what else is in it is left alone",
  },
  M75: {
    text: "A provider of the official client authorizes over HTTP: its token goes with every request, and one that the server refuses is replaced before the message is sent once more, by one request at a time",
  },
  M76: {
    text: "A server that wants an authorization is an error that says what it asks for, scheme, scope and resource metadata, and what to give; no token is in an error, an event or a trace, and none goes to another origin",
  },
  M77: {
    text: "A tool can ask the approver of the run for a value while it is at work; it learns at once that nobody can answer, and nothing is asked or said of a call that has ended",
  },
  M78: {
    text: "What an MCP server asks people for is answered by the approver of the run whose call it is, checked and with the defaults of the schema, or declined; sampling is declined with a reason, and the call goes on",
  },
  M79: {
    text: "Every scenario of the public conformance suite for MCP clients passes",
  },
  M70: {
    text: "A task, a message on the way and a delegation in code may have images, sounds and files among their words; whoever cannot take them reads a line for each; what is told as text is kept as ever",
  },
  M71: {
    text: "Each interface is sent what its model takes in its own words, in the result of a tool where the provider sees it there, else behind the results; the text of a request is a prefix of the next one",
  },
  M72: {
    text: "What comes with the result of a tool or of an MCP server, failed or not, is shown to a model that takes it, unless the tool says otherwise",
  },
  M73: {
    text: "What is no text goes through journal, pause, session, fork and to subagents, and to another model as far as that takes it; a journal has its bytes once, a trace or an event never",
  },
  M74: {
    text: "What is no text is counted before the provider has, bounded, refused before anything is asked if it cannot be sent, and of a history that is made shorter the newest is kept",
  },
  E90: {
    text: "`engineContract()` has what every engine promises as checks for any test runner: it passes for an engine that keeps the promises, and fails for one that breaks any of them",
  },
  E91: { text: "The engine over the store alone keeps the contract of engines" },
  E92: {
    text: "The engine over pg-boss keeps the contract of engines on a PostgreSQL store",
  },
  E93: {
    text: "The engine over Restate keeps the contract of engines on a PostgreSQL store",
  },
  E100: {
    text: "Runs that a killed worker led come to the texts that they would have come to, led on by another one; no effect that was kept is done again",
  },
  E101: {
    text: "A worker that froze and wakes up after its run was taken over harms nothing: one journal, one result, and no call that must not be repeated is begun twice",
  },
  E102: {
    text: "One order, given a hundred times at once over an engine, is one run, and each of its effects is done once",
  },
  E103: {
    text: "A run that an engine has led, or that waits for an answer, is cancelled from any process; nothing of it begins afterwards",
  },
  E104: {
    text: "A run that waits for an answer goes on with it after all workers were replaced; the call is made once, and a second answer is refused",
  },
  E105: {
    text: "A worker that is told to end gives its runs up within its grace period, and what returned by then is not done again",
  },
  E106: {
    text: "A run that an engine can have led nowhere, since its definition is wrong, is tried once and says why; a role that no worker has is refused at once",
  },
  E107: {
    text: "A run that moved between workers is one ordered list of events and one trace, in which no span began twice",
  },
  E108: {
    text: "Runs whose database dies are left, and go on when it is back; nothing that was kept is done again",
  },
  E109: {
    text: "While workers and the engine are killed at random every run ends, with the text that it would have had unless a call that must not be repeated was under way; no reservation is left",
  },
  H10: {
    text: "The result of a run has the type of its role's `output`, alike for start, resume and fork, in what `result`, `settled`, `orThrow` and `cancel` give; without a role, of the roles of the orchestrator",
  },
  H11: {
    text: "A typed result may be asked for by a JSON Schema, which is shown, checked and corrected like that of a tool",
  },
  H12: {
    text: "A role asks for the context that its tools, hooks, guards, filters, sections, stop conditions and subagents ask for, without type arguments in usual code; who starts a run or continues with it gives one, or it does not compile; where none is asked for, none is given",
  },
  H13: {
    text: "Tools, hooks, guards, filters, sections and stop conditions of every agent of the tree have the very value that was given as context: not copied, not frozen",
  },
  H14: {
    text: "A context is nowhere: in no event, span, journal, paused run, session or result; resume, resumeLostRuns and fork are given one anew",
  },
  H15: {
    text: "Instructions may be a function of the context: asked once per execution of an agent, their text is kept with it, over pauses and crashes; an execution that continues has the same, a further one asks anew; what throws or gives no text is a coded error before anything has happened",
  },
  E80: {
    text: "A run that moves between processes, after a crash or because it was left, is one trace: its span goes on under its id, in any number of processes, with OpenTelemetry and without",
  },
  E81: {
    text: "Ids and times of a run that moved follow from its log: every event stands in its trace, in order of its number, and no id of a span is used twice",
  },
  E82: {
    text: "No span of a run is emitted twice: it leaves its process once the event of its end is kept; of a process that is fenced, or that cannot keep the run, what was not kept leaves never",
  },
  E83: {
    text: "`traceparent` of `start`: the run stands below that span, in its trace, before an active one, sampled as it is, also once it has moved; the event log says so without OpenTelemetry",
  },
  E84: { text: "A `traceparent` that is none of version 00 is refused at once" },
  E85: {
    text: "When the result of a run is there, ended or paused, all its spans have ended, kept or not: a flush after it has them",
  },
  H20: {
    text: "The root entry has at most 150 names; every name is exported from one entry; what can be reached from an entry is exported, so that no internal declaration is part of the public face; the report of the root has at most 2,500 lines",
  },
  H21: {
    text: "What leaves the core is frozen whole, in production too: what stop conditions, processors, guards, tools and hooks see of histories, steps and requests, the reports of `iterate()`, events, snapshots, and the result with all that is in it",
  },
  H22: {
    text: "One run passes through no more lines, functions, calls and stack frames than fixed bounds, which may only fall, and enters no file of a feature that it does not use",
  },
  E1: {
    text: "A run has a mailbox in its store: anybody may post to it, each key once, in an order without gaps also where many post at once; a paused run is open from then on, and one that has ended takes nothing",
  },
  E3: {
    text: "A run can be given up open: it has no owner, and whoever claims it leads it on",
  },
  E60: {
    text: "Over Restate a run that is handed over is led once, by a worker that has its role in its version, and by no other",
  },
  E61: {
    text: "Over Restate one leading of a run is under way at a time; what is asked for meanwhile comes after it",
  },
  E62: {
    text: "Over Restate a run is led at the time that was asked for, and a run that waits until a time is led then by itself",
  },
  E63: {
    text: "Over Restate a leading that rejects is repeated until it settles",
  },
  E64: {
    text: "A worker behind Restate takes no more over one connection than it can lead; one that closes leaves what it leads, which another one leads on, and resolves when all has settled",
  },
  E65: {
    text: "What was handed to Restate is led again when its worker is killed, by another one, and when the server is killed and comes back; a worker writes nothing to the console",
  },
  E66: {
    text: "A run whose role no worker ever had in its version is refused by Restate's engine as unknown",
  },
  E67: {
    text: "A Restate server that cannot be reached or refuses, and a port that is taken, are coded errors that say what to do",
  },
  E68: {
    text: "Without keys a worker behind Restate listens on this machine alone; with keys it refuses what Restate has not signed with one of them",
  },
  E69: {
    text: "Options of Restate's engine that cannot be used are refused at once; a package that is missing is named where it is needed",
  },
  E10: {
    text: "`start` under an id of the caller's begins one run, however often and wherever it is asked for at once: the handle of the one under way, `run_id_conflict` for another task, `run_exists` for one that is kept, of which nothing else is seen",
  },
  E11: {
    text: "A journal of which its process made nothing but the name is begun under the same id, by `start` as by `execute`; what was kept at its death is gone on with",
  },
  E12: {
    text: "`run.release`: what is under way and returns within the grace is kept and not done again; what does not is ended, and done again by the next leader unless it must not be",
  },
  E13: {
    text: "After the wish to leave nothing begins; the run is open, without an owner; its result rejects with `run_released`, its readers end, and no timer, rejection or slot is left behind",
  },
  E14: {
    text: "A run that is being left and asked for again in the same process goes on there, and nothing is repeated",
  },
  E15: {
    text: "What is asked of a run by mail is done once, wherever the run is led and whenever its process dies; what a later release asks is left unread",
  },
  E16: {
    text: "Answers come by mail, some or all: while the approver is asked, at a pause, or once the run is led again; the first one counts, and one that did not fit may be given anew",
  },
  E17: {
    text: "A run that got mail is folded, recovered and replayed as any other",
  },
  E18: {
    text: "`orchestrator.cancel` ends a run that is led here, elsewhere or nowhere, has not begun or is paused; no model call begins after it",
  },
  E19: {
    text: "`execute` starts, joins, recovers, waits for or gives the result of a run, whichever it is, any number of times and in any process at once: one run, each effect once",
  },
  E20: {
    text: "`execute` refuses what is no order, another task, an unknown role and another version, and nothing has changed",
  },
  E21: {
    text: "What is wrong with a run for good is put on record after one attempt, and its result says why; it is tried again when it is asked to resume, or is ordered once more",
  },
  E22: {
    text: "What may pass is handed back to the engine; a worker leaves runs of other roles and versions alone, leads so many at once, and finds what an engine forgot",
  },
  E23: {
    text: "A worker that is closed gives its runs up within its bound, and others go on with them; a run that another process leads is not taken from it by an engine that does not know who leads what",
  },
  E24: {
    text: "`RunClient`: ordering a run any number of times is one run; who has its id attaches to it after any crash, with its result, questions, answers and cancellation",
  },
  E25: {
    text: "`RunClient.events` gives each event of a run once and in order from any number on, wherever it is led, also over a takeover, and ends when the run rests",
  },
  E110: {
    text: "What is posted while a run comes to rest, and its leader has not seen, keeps the run open: it is done by whoever leads it next, though that process has died",
  },
  E111: {
    text: "A run that waits until a deadline goes on then over the engine on the store alone, also if the process that knew of it is gone, and is not tried again and again if it was refused",
  },
  E112: {
    text: "Of several executions of one run in a process, the one that is left rejects at once and the run goes on for the others; it is given up with the last of them",
  },
  E113: {
    text: "While workers are killed and frozen at random, and the engine is killed, no record of an older owner of a run stands after one of a newer owner",
  },
  E114: {
    text: "Workers and clients over a database of a newer release, or in which their tables are not and cannot be made, are refused at once with a coded error; nothing serves and nothing is ordered",
  },
  E120: {
    text: "What is asked of a run while an attempt to lead it fails is done once the reason is on record: the run is led once more",
  },
  E121: {
    text: "A worker is closed within its bound though the `context` of a run never comes, or its engine never replies; the run stays open for others",
  },
  E122: {
    text: "A run of which the store has lost something rests, and its result says so; it is not read again and again",
  },
  E123: {
    text: "A run whose question has a deadline that no calendar has waits without a time: an engine is told of none that it could not keep",
  },
  E124: {
    text: "The `signal` of any execution of an order cancels its run, whether it began the run, joined it, or waits for the process that leads it",
  },
  E125: {
    text: "A worker behind Restate ends within seconds of its runs when it is closed, though the server is frozen or cut off",
  },
  E126: {
    text: "What waits in a long line of an engine that remembers it is not handed to it at every sweep of every worker, but ever more rarely, and anew once something has happened to it",
  },
  E127: {
    text: "A worker over a store that cannot be written to is refused before it serves",
  },
  V1: {
    text: "A store that only reads finds what any other store does, while others write and after that, and writes, makes, changes and leaves behind nothing",
  },
  V2: {
    text: "What is read only and is not there is not made; it, what another program wrote, and what has another version, is a coded error",
  },
  V4: {
    text: "A file that another process writes is read as it was at one moment, also once that process was killed",
  },
  V5: {
    text: "A run is read on from where it was read to: each event once, in order, with the number of its line, whatever happens to the run meanwhile",
  },
  V6: {
    text: "The steps of each agent and the request of each step are those of the run's result and of `rebuildRequest`",
  },
  V7: { text: "What one agent did is made of the lines that say so, and nothing is written" },
  V8: {
    text: "Of a step under way there is what records say: its request, then the reply, then what each call came to",
  },
  V9: {
    text: "Each message of a request that an agent inherited is known by the ancestor that had it first",
  },
  V10: {
    text: "What agents did before a pause and in earlier executions stays, as far as the store has it",
  },
  V11: {
    text: "Reading a journal, the result of a stored run and a request from its recording leave turns of the event loop to other work",
  },
  V20: {
    text: "A fold of the events of a run says of each agent what it does, its steps with their calls, its refused spawns, how it ended, and what it and its subtree have spent, as the result and the ledger do",
  },
  V21: {
    text: "A patch of a fold since any record, laid on the snapshot of that record, is the snapshot of now",
  },
  V22: {
    text: "Each type of event is folded, or is known to change nothing; unknown ones, those of other runs and those of agents without a beginning change nothing",
  },
  V23: {
    text: "First cause first: of a run that failed or was stopped, its fold says where that began, at which step and call, and how it went up the tree",
  },
  V24: {
    text: "Waits for subagents, answers, slots and further attempts, and the time in which a run was paused or led by nobody, are spans of their own: they are never shown as work",
  },
  V25: {
    text: "Text that is printed to a terminal view stands above its trees, whole and in order, and cannot steer the terminal",
  },
  V26: {
    text: "A run is shown as lost once its process gave no sign of life for 30 s, as waiting where it has something to do and no process, and as it ended once it has",
  },
  V27: {
    text: "`espalier runs` and `espalier show` say of runs, agents and steps what is kept of them, first cause first; the result alone is on stdout, no text in it steers a terminal, and nothing is written to the store",
  },
  V28: {
    text: "`espalier tail` tells of a run what was and what comes, wherever it is led, and exits as the run does",
  },
  V40: {
    text: "A command ends with 0 for what completed, 1 failed, 2 wrong use, configuration or role file, 3 stopped by a limit, 4 paused, 6 the store; what goes wrong is said with its code and what to do, without a stack",
  },
  V41: {
    text: "The result of a command stands on stdout alone, all else on stderr: text, one JSON object or events; text of models cannot steer the terminal; a run that fails says why, the first cause first",
  },
  V42: {
    text: "A role file is run without code: subagents beside it, models by id, built-in tools that read one folder, servers of mcp.json, whose tools are asked about unless they are said to read only",
  },
  V43: {
    text: "A run is meant by its id, a beginning that no other run has, or @last; what means several or none is refused in words",
  },
  V44: {
    text: "`init` makes roles that run as they are, says what it does, and overwrites nothing",
  },
  V45: { text: "`roles check` names what is wrong with each role file, by file and line" },
  V46: { text: "`doctor` says of each part of a project whether it works, and makes nothing" },
  V47: {
    text: "Completion scripts have all commands and options, and complete ids of runs from the store, within a bounded time",
  },
  V48: {
    text: "The first Ctrl-C cancels the tree and says so, the second leaves; SIGTERM pauses a run that is kept, and cancels one that is not",
  },
  V49: {
    text: "Node that is too old is said in one line before anything is imported; a project's own copy of the package runs its command; help loads nothing of the library",
  },
  V50: {
    text: "A configuration is found upwards to the end of the project, and checked; what Node cannot load of it is said with file, line and what to do",
  },
  V51: {
    text: "A role file may name tools by how their names begin, and leave its model to who reads it",
  },
  V52: {
    text: "Questions at the terminal are shown whole, are never answered by one key, and are withdrawn with their run; nothing else is drawn meanwhile",
  },
  V53: {
    text: "Before a run that was cut off goes on by `resume`, the calls in the middle of which that happened are named, those that must not be repeated first",
  },
  V70: {
    text: "A viewer gives lists of runs, one run, agents, steps, logs and questions as the journals of its store have them, each by a route, whichever process leads the run",
  },
  V71: {
    text: "A viewer lets in who has its token, at a name of this machine, and takes what changes something from its own pages alone, as JSON of a bounded length; connections are bounded",
  },
  V72: {
    text: "Every answer of a viewer has the headers that keep a browser to its own files; hostile ids and paths name nothing, and no file but those of the page",
  },
  V73: {
    text: "The feed of a run gives each reader exactly what is new since a record, by `after` or `Last-Event-ID`, without a gap or a repetition, also from another server and over another leader of the run",
  },
  V74: {
    text: "A reader of a feed that does not read is told that it lags, and slows neither the run nor other readers",
  },
  V75: {
    text: "With content off no byte that a viewer sends has a text of a prompt, task, argument, result, question, answer or error",
  },
  V76: {
    text: "`redact` is asked of each text whole, before it is shortened or searched; what it fails at is withheld",
  },
  V77: {
    text: "Answers over HTTP go to the run that asks, wherever it is led, which goes on once all are there; an answer to another call is refused",
  },
  V78: {
    text: "Of two who answer one question the first counts, and the other is told so; a request of the same key is done once",
  },
  V79: {
    text: "Cancel, pause and resume over HTTP act at once on what is led here, by the mailbox on what is led elsewhere, and with attached roles on what is at rest",
  },
  V80: {
    text: "`view.approver` keeps a run waiting while its question is in the inbox, and withdraws when its signal is aborted",
  },
  V81: {
    text: "Lists of runs say what folds say, by status, text and page; every question of the store that is open is in the inbox",
  },
  V82: {
    text: "A viewer holds eight folded runs at most; folding gives other work of the process its turn",
  },
  V83: {
    text: "Looking at runs writes nothing and claims nothing; without a look nothing is read",
  },
  V84: {
    text: "Options of a viewer that cannot be used are refused at once",
  },
  V85: {
    text: "The token of a file outlives the server and is readable by its user alone; one that others could read is replaced",
  },
  V86: {
    text: "The handler of a viewer serves it in a server of one's own, below a path, with its own way to let in",
  },
  V87: {
    text: "A step is shown with its request, reply and calls as its agent's states have them, also while it is under way",
  },
  V88: {
    text: "`espalier view` opens the viewer of the project's runs until it is left; it makes no store, writes into none unless something is asked of a run, and shows the token to nobody else",
  },
  V89: {
    text: "`--view` shows a run, or the demo, in the browser while it lives, and until it is left",
  },
  V90: {
    text: "The page is one HTML, one script and one style sheet, at most 250 KiB and 80 compressed, and asks nobody but its own server for anything",
  },
  V91: {
    text: "The tree of a run: siblings of a role that ended alike share a line; what is folded or filtered is counted, can be reached by keys, and what stands above a match stays",
  },
  V92: {
    text: "A run of 5,000 agents is shown with fewer than 1,500 elements, wherever it is scrolled to",
  },
  V93: {
    text: "In the timeline a long rest is a marked break, and takes no more room than that",
  },
  V94: {
    text: "The feed is read from the last record that is known: what is shown is exact after any break, also after the server was killed and started anew",
  },
  V95: {
    text: "Which rows there are and what they say change apart: amounts do not make the page list its rows anew",
  },
  V96: {
    text: "What models, tools and users wrote is shown as text in every field: no markup, no links, and what is unseen or turns the direction by its number",
  },
  V97: {
    text: "Calls are approved, denied and modified from the keyboard, never by one key, and the run goes on with exactly what was shown; an edited call is shown again before it goes",
  },
  V98: {
    text: "Two tabs answer one question: one answer is taken, and the other tab is told",
  },
  V99: {
    text: "What is open is in the address of the page: links, a reload and the way back restore it; the token is in none",
  },
  V100: {
    text: "axe finds nothing on any screen of the page, light or dark, and its content security policy nothing to complain of",
  },
  V101: {
    text: "Each thing that can be wrong has its screen, which says what to do; a lost connection leaves what was last known, says so, and is tried again",
  },
  V102: {
    text: "A panel of the page that breaks leaves the others",
  },
  V103: {
    text: "A hidden tab gives its feed up after 30 s, and goes on where it was once it is seen",
  },
  V104: {
    text: "Answers of one run can be sent together",
  },
  V105: {
    text: "Without content the page says so where it would be, and why",
  },
  V110: {
    text: "Who leaves while a run is read for its feed is no reader of it: nothing is looked at for nobody",
  },
  V111: {
    text: "A run whose events nobody reads any more comes to rest: it pauses where it is kept, and is cancelled where it is not",
  },
  V112: {
    text: "A command that only looks makes and changes no store: `questions` and `doctor` as well",
  },
  V113: {
    text: "A run whose journal cannot be read hides no other from `runs` and `questions`, which say what is wrong with it; an answer to it is refused with `invalid_journal`",
  },
  V114: {
    text: "A list of runs that is cut says so, of the command with how to see the rest, and so does an inbox",
  },
  V115: {
    text: "`resume --grant` adds to the limits of a run that rests, on record with who did it; what cannot be granted is refused, and nothing has changed",
  },
  V116: {
    text: "The viewer's own store in memory forgets runs that have ended beyond 256 MB, the oldest first, and its list says how many; what goes on or waits stays",
  },
  V117: {
    text: "Before a run that was cut off goes on by the page, the tools that may run again are named, each with its agent",
  },
  V130: {
    text: "Pictures in documents are made by a command, there in light and dark, and small",
  },
  V131: {
    text: "The demo in the browser is the first command of the README and works in a fresh clone; no document has `npx` run a package before it was installed",
  },
  V132: {
    text: "`run --answer ask` asks at the terminal, and the run goes on with what was said: approved, denied with a reason, edited, or left open",
  },
  V133: {
    text: "`run --session` begins with the history of a session of the store, and adds to it",
  },
  V134: {
    text: "`run --otel` sends the spans of the run, and says how many arrived; a place for traces that is down changes neither result nor exit code",
  },
  V135: {
    text: "`runs --watch` draws the list again and again, in place and in the room that there is, until Ctrl-C; without a terminal it is refused",
  },
  V136: {
    text: "A run that pauses says on stderr what to type for the answers that it needs: for one to allow, for one whose result is wanted, for several; an answer of the wrong kind is told the right command",
  },
  V137: {
    text: "Why a run did not complete is said once on stderr, and amounts are written as everywhere else",
  },
  V138: {
    text: "A configuration that is no use says so: which file threw, and that the folder of its roles is not there",
  },
  V139: {
    text: "A run whose questions were all answered by mail needs nobody in `runs` and `show`, and is said to wait for a process, as on the page",
  },
  V140: {
    text: "`cancel` says that a run is cancelled once it is, and of one that another process leads that it was asked for",
  },
  V141: {
    text: "The page of a run that nobody leads, where it cannot be resumed there, says the command that goes on with it",
  },
  V142: {
    text: "`--model` that no role file would take is refused, and says which model is named instead",
  },
  V143: {
    text: "`resume` says which answer came to nothing, and why, where one does not fit its call",
  },
  V144: {
    text: "Of two who answer on pages, the second is told on the screen that the first counts, though the question is gone",
  },
  V146: {
    text: "A run stands in the same group of lists on the terminal and on the page: one that is paused on request needs somebody",
  },
  V147: {
    text: "Who reads the steps or a request of one agent is told of a state that cannot be read by the code of a broken journal",
  },
  V150: {
    text: "An answer that came to nothing is said at its question on the page, with why, and the question can be answered again",
  },
  V151: {
    text: "Commands that the page names can be pasted: they are called there as the command is called where the viewer was started",
  },
  V152: {
    text: "Who opens an address that the viewer does not have gets its page, which says so and leads back; a program gets JSON",
  },
  V153: {
    text: "What the command and the page count is said in the singular where it is one",
  },
  V154: {
    text: "A cost that is unknown is never a bare `unknown`: it says that it is a cost, and, where a run is told of, for which models there is no price",
  },
  V155: {
    text: "`approve` says the call that it approves, with its arguments, before it does; at a terminal it asks, unless `--yes` says so",
  },
  V156: {
    text: "`resume` of a run that a process leads says which, and the option that takes the run over",
  },
  V157: {
    text: "A command that keeps nothing takes no store away that another one may have open",
  },
  V158: {
    text: "What is wrong with a configuration names its file, whether `defineConfig` says it, another part of the library, or the orchestrator that is made of it",
  },
  D21: {
    text: "Every public name has a section in the reference that says how it is imported and what it is for, and stands in the list of all names; links between its pages hold",
  },
  D22: {
    text: "Every event has a section that says when it is said, with every field and what it is",
  },
  D23: { text: "Every error code has its cause and its cure" },
  D24: {
    text: "Every option of an agent, a tool, a run and an orchestrator, and every field of results, steps and messages has its row",
  },
  D25: { text: "Every environment variable that is read is on one page, and no other" },
  D26: { text: "Every name that is given to OpenTelemetry is on a page" },
  D200: {
    text: "examples/apps/code-review: a reviewer for each changed file, a typed verdict, a budget in dollars that stops it and says so",
  },
  D201: {
    text: "examples/apps/research: researchers work in the background, in parallel, and nothing is written before somebody approves",
  },
  D202: {
    text: "examples/apps/chat: answers stream to a page, go on after a kill, and nobody gets more than their allowance or what is another's",
  },
  D203: {
    text: "The package has what a user needs and nothing else: no tests, no sources, no maps, no condition for development, no link that leads out of it",
  },
  D204: {
    text: "A release is refused from a dirty tree, another branch, with no greater version or no changes; what would be published is said, and nothing is published unasked",
  },
  D205: {
    text: "What a program does not import is left out by bundlers: a tool alone brings neither the loop nor the schemas of events",
  },
  D206: {
    text: "A release is checked and packed in a clone; published, it comes over as it was checked, and if what it was made of has changed meanwhile, it is not",
  },
  D207: {
    text: "`npm pack` at the root is refused, and says which command makes the package",
  },
  D208: {
    text: "The page of the chat shows an answer while it is said, as text, goes on with it after a reload, and shows what was said before",
  },
  D220: {
    text: "What a limit stopped or refused in a run that went on is named after the errors, each limit once, with who came to it first; such a run does not look failed",
  },
  D221: {
    text: "A terminal that does not know its size, or says 0, is drawn on like one of 80 by 24",
  },
  D223: {
    text: "People and models read limits in dollars as dollars, in refusals and lines too",
  },
  D224: {
    text: "No limit in time ends early by the clock that durations go by, whatever the timers of the machine do",
  },
  D240: {
    text: "Who has read `question.asked`, by a sink or a reader, in the process that leads the run or another, can answer it at once; an answer that still comes too early is told so",
  },
  D241: {
    text: "`run.whenPersisted()` resolves once what has happened so far is in the store, where another process finds it and goes on with it; it rejects for a run that is kept nowhere, or cannot be",
  },
  D242: {
    text: "A run that pauses with mail that it has not read goes on by itself, under the same handle, for its readers and its result; one that was asked to pause rests",
  },
  D243: {
    text: "With `onStreamPart` of the orchestrator a run streams from its first call; a reader that comes later is told what was said, and without one a call that had begun before is said whole",
  },
  D244: {
    text: "`toRunId` makes the id of a run of a text, and refuses what is none",
  },
  D255: {
    text: "A reader of pieces that comes late, or comes back at any piece, is told what was said so far, each reply once and in order, and then what comes",
  },
  D256: {
    text: "A run as server-sent events makes a page whole at each connection, and is followed from the call of toSse on",
  },
  D257: {
    text: "What the retention of a session leaves out stays in its runs, which the session names: a page can show the whole conversation",
  },
  D258: { text: "A run says which session it continues, also one that was recovered" },
  D270: {
    text: "What a model was heard to say is paid for, also if its failure says nothing of it or it is left behind: the next attempt has what is left",
  },
  D271: {
    text: "A reply that a hook gives without the model, with a usage that cannot be true, is charged by our own count",
  },
  D272: {
    text: "A price that a model was given after its role was defined is checked when a run starts: no lease is worked out from what is none",
  },
  D273: {
    text: "A subagent that was left to the run ends by the limits in time as they are by then: a grant above moves its end, and its own clock stands still while its question waits",
  },
  D274: {
    text: "Subagents of one reply get parts of the same also where a sequential call stands between theirs, or some of them start after a pause",
  },
  D275: {
    text: "A model whose usage is all zeros does not count: its calls are charged by our own count, and a budget of tokens holds",
  },
  D276: {
    text: "A reply that is none, and reports no usage, is paid for by its request and its text",
  },
  D280: {
    text: "What is asked of a run while it comes to its pause, and before it goes on by mail, breaks nothing and holds once it goes on; its pieces are numbered on",
  },
  D281: { text: "A sign of life that the end of its run overtakes takes no result away" },
  D282: {
    text: "A grant of what is not limited is refused before anything happens: the run can be resumed as before",
  },
  D283: {
    text: "A run that is to go on by mail does so, too, if its store fails for a moment or loses an answer then",
  },
  D284: { text: "Answers that are no list are refused as such, however they are handed in" },
  D285: {
    text: "An answer holds whose question was not asked again before the run was asked to pause",
  },
  D286: {
    text: "A run that was claimed and cannot continue after all is given back as it was: nothing is written to its journal",
  },
  D287: {
    text: "A run that a limit stopped, and that is kept, goes on by its id with more of the budget, in its own journal, over a death at any append; one that ended otherwise is refused, and stays as it was",
  },
  D288: {
    text: "A cost of nothing that a provider reports for a call that has a price is not believed: the price is charged, and the run is warned once",
  },
  D289: {
    text: "A run that cannot be recovered rests as it was left, also if another process led it on between the first look and the claim",
  },
  D300: {
    text: "A listener of the user's that is asynchronous and rejects ends neither the run nor the process: it is warned of once",
  },
  D301: {
    text: "Calls that a server of Chat Completions gives whole are kept apart, also without ids and places",
  },
  D302: {
    text: "Who listens to pieces is told of each call what the model will read of it, once: the summary of a long result, and also that a call never began",
  },
  D303: {
    text: "An agent that is to give a typed result and says something else while its subagents work in the background waits for them: no miss, and none of them is lost",
  },
  D304: {
    text: "Half of a surrogate pair in what a model is shown goes out as U+FFFD: no server refuses the request for it, nor each later one over the same history",
  },
  D305: {
    text: "A history goes on to another provider also where that refuses ids of calls as its writer forms them; the writer itself is sent its own",
  },
  D306: {
    text: "A history in which a model wrote a text without a word before a call goes on to Claude",
  },
  D307: {
    text: "A typed result that is a list or a choice, also one that may be null, is taken with and without the key that it stands under, whatever keys it has itself",
  },
  D308: {
    text: "An agent that says nothing while its subagents work in the background waits for them: it does not fail, and none of them is lost",
  },
  D320: {
    text: "An agent is linked to the subagents in the background whose results it was given, also where they go on after a pause or a crash",
  },
  D321: {
    text: "Workers that share an engine on the store in one process are each given what they have the role for; what one gives up another goes on with",
  },
  D322: {
    text: "Options of an engine on the store that it does not have, or cannot use, are refused",
  },
  D323: {
    text: "A worker whose roles do not fit together, or whose models cannot work, whatever is ordered, is refused before it serves: it refuses no order",
  },
  D324: {
    text: "The span of a delegation that starts several subagents is named by its tool, not by the last of them",
  },
  D325: {
    text: "What the script of a scripted model throws, or gives that is no reply, fails the test as an error of the script, and no failure of the model",
  },
  D326: { text: "A manual clock refuses what is no time, and never goes back" },
  D327: {
    text: "Options of a client, of a run that it attaches to and of a worker that closes are refused by name if they cannot be used, and so is what is to be recorded",
  },
  D400: {
    text: "An answer of an MCP server that exceeds 10 MB, or another limit, is a coded error: its connection is closed, and its memory is released",
  },
  D401: {
    text: "At most 1,000 tools of an MCP server are taken, and it may ask people 50 times in one call, unless options set other limits",
  },
  D402: {
    text: "A tool of an MCP server with an unreadable schema or an unusable name is skipped with a warning, and the other tools work",
  },
  D404: {
    text: "The finish reason in a provider's own words is content: it is on a span only where content is recorded, and in no event",
  },
  D405: {
    text: "Of the finish reason in a provider's own words a run keeps at most 200 characters",
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
    text: "No folder tool returns a byte or a name from outside, also while another process swaps folders on the way for links",
  },
  D440: {
    text: "A subagent whose model throws while the subagent is set up gives its place back, and every announced subagent ends",
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
    text: "A takeover from a live process that is refused changes nothing: the live process keeps the run",
  },
  D445: {
    text: "A recovery charges each of several model calls that hooks had under way at once under one lease",
  },
  D470: {
    text: "A trace backend that serves one request after another receives every span: batches are not given up while it is merely slow",
  },
  D471: {
    text: "Spans whose request timed out are reported as not confirmed, not as lost, in flush(), the warning and the metric",
  },
  D430: {
    text: "A value of 5 MB is validated against any JSON Schema from elsewhere, or refused, in under 200 ms; the same value is always refused or never",
  },
  D431: {
    text: "A JSON Schema from elsewhere that would take too long to compile is refused when its tool is defined",
  },
  D432: {
    text: "Text, reasoning and arguments of a stream that goes on past its cap are cut at twice the cap by our count: the connection is closed, and the reply ends as `length` with a warning",
  },
  D433: {
    text: "An honest stream of as many tokens as its cap is not cut in languages of up to six bytes per token",
  },
  D472: {
    text: "A process that gave a run up takes no snapshot of it, and its sinks are given no event number twice",
  },
  D473: {
    text: "The result of a run lists the subagents that still work, with their usage so far, also after the run was recovered",
  },
  D450: {
    text: "A paused run that is resumed gets at most the limits, budgets and denials of its roles in code and of the orchestrator; only grants raise them",
  },
  D451: {
    text: "A role or a limit that has become stricter since a pause holds when the run is resumed; one that has become wider changes nothing",
  },
  D452: {
    text: "A paused run whose figures contradict each other, or its own history, is refused before anything happens",
  },
  D453: {
    text: "A fork is held to the roles in code like a resumed run, and keeps what its origin was granted",
  },
  D454: {
    text: "A waiting call of an unsigned paused run has the arguments that its model wrote, and runs only with a value that its schema makes of them; only rewriting hooks and transforms that vary are exempt",
  },
  D455: {
    text: "With a signing key every change of a paused run is refused, wherever it is handed in",
  },
  D456: {
    text: "With a signing key an unsigned paused run is refused; of several keys the first signs and all verify",
  },
  D457: {
    text: "No random alteration of a paused run leads to more steps, tokens, tools or subagents, or to other calls, than the run that was paused allows",
  },
  D474: {
    text: "A delay that only the body of a refusal states is read alike over Chat Completions, Responses and the AI SDK",
  },
  D475: {
    text: "Cached tokens above the input are counted beside it over every adapter",
  },
  D476: {
    text: "An answer that is nested deeper than the call stack fails as the same error over Chat Completions and Responses",
  },
  D477: {
    text: "maxConcurrentRuns bounds how many runs of an orchestrator work at once, first come, first served; queuedMs of run.started and run.resumed is the time that a run waited",
  },
  D478: {
    text: "A run that waits for its slot can be cancelled, left and recovered, its limit in time does not run, and a run that code of another run starts does not wait",
  },
  D460: {
    text: "A run that ends each process that leads it fails with crash_loop after maxCrashes processes, over each engine, and a run beside it completes",
  },
  D461: {
    text: "A store counts the owners of a run that were lost, in the claim that replaces them, until a batch has progress or the run rests",
  },
  D462: {
    text: "A crash is counted before the journal of the run is read and before any code of the user's runs",
  },
  D463: {
    text: "A run that crashed waits 1 s, 2 s, 4 s and so on, at most 60 s, after the last crash that was counted; other runs are led meanwhile",
  },
  D464: {
    text: "Of the runs that crashed twice in a row a process leads one at a time, so that no crash counts for a run beside the one that caused it",
  },
  D465: {
    text: "A completed step or tool call resets the crashes of a run; a call that a crash cut off is no progress",
  },
  D466: {
    text: "resumeLostRuns recovers runs without crashes at once and the others later; after five deaths of its process it fails the run, and the next start survives",
  },
  D467: {
    text: "A run that fails with crash_loop ends all its subagents, charges its leases and has its result in the store; no tool or model is called for that",
  },
  D468: {
    text: "A run of which processes die even while it is failed or read rests with crash_loop, until a person asks it to resume",
  },
  D469: {
    text: "Giving a run up, resuming it, answering it and taking it from a live owner count as no crash",
  },
  D410: {
    text: "A call that was approved runs with the very JSON value that the question showed: parsed once, over pauses and crashes, and whoever answers",
  },
  D411: {
    text: "An approved call whose tool has another schema by then runs only if that schema makes the same value; otherwise it is denied with the reason",
  },
  D412: {
    text: "A value that JSON does not have is shown as the model wrote it; after a pause or a crash it runs only if its fingerprint is the same",
  },
  D413: {
    text: "Arguments that an answer changed are parsed like those of a model, and the parsed value runs",
  },
  D414: {
    text: "External calls and delegations show, run and record the value that was parsed when the call was bound",
  },
  D486: {
    text: "A JSON Schema of 2,000 parts can be used, whether they stand in one object or behind references, $id and $anchor",
  },
  D415: {
    text: "A resume or fork is refused with output_mismatch if a stored typed result does not fit its role; the error names role, agent, fields and remedy, and the run stays as it was",
  },
  D416: {
    text: "A stored typed result fits if the schema is the same, makes the stored value of what the model wrote, or leaves the stored value as it is",
  },
  D417: {
    text: "A recovery that is refused with output_mismatch claims, writes and charges nothing that stays, and counts no crash, over recover, resumeLostRuns, execute and cancel",
  },
  D418: {
    text: "At whatever append a process dies, the next one never takes a result that its role does not allow",
  },
  D488: {
    text: "A message of an MCP server with more than 200,000 names and values, or 500 levels, is refused over both transports before it is parsed, with the code of one that is too long",
  },
  D495: {
    text: "With a signing key, a promise or a result that is handed in for a paused run is named as such",
  },
  D496: {
    text: "A person who looks at a run that no process could lead reads the code and the message: in espalier show and in the viewer",
  },
  D497: {
    text: "The error of a run that rests with crash_loop says to ask it to resume; that of a run that failed with it says to start anew",
  },
  D498: {
    text: "espalier cancel ends a run whose process has died, with the roles at hand",
  },
  D499: {
    text: "espalier resume --grant refuses a run that no limit stopped as wrong use, and says how it ended",
  },
  D489: {
    text: "The schemas of a list of MCP tools are compiled in bounded memory and work: a tool beyond it is skipped with a warning, and a pattern holds no program",
  },
  D580: {
    text: "Importing the library with a version of Node that is too old fails with a coded error that names the version it needs",
  },
  D504: {
    text: "A reply that comes whole, or in whole items and calls, is cut at twice the cap by the same count as a stream, over Chat Completions, Responses and the AI SDK",
  },
  D505: {
    text: "A whole reply whose usage says that it kept to its cap is cut at eight bytes per token of that usage; a cut reply is charged by its usage if that is more than our count",
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
    text: "Pieces of a reply that are handed on are cut at twice the cap even if the whole item says something else, or a call is opened behind its arguments",
  },
  D508: {
    text: "A call that a server would not take, as Groq reports it, is read in time linear in its length",
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
    text: "A third identical call or delegation is refused with an instruction if no approver can be asked; with one, the question states the repetition",
  },
  D523: {
    text: "The reason of a paused run names each call that it waits for and its agent, also below the root",
  },
  D585: {
    text: "Below sameOriginFetch no redirect carries prompt or key of an AI SDK provider to another server; the command uses it for each model that it makes by name",
  },
  D509: {
    text: "Where no open handle tells where it leads, folder tools read nothing outside either on file systems that give several changes the same time",
  },
  D524: {
    text: "With --json every failure of a command prints exactly one JSON value with the code and the message of the error on stdout",
  },
  D525: {
    text: "runs, show and questions list nothing in a project without runs, make no file and exit with 0",
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
    text: "A complete reply is accepted although its connection breaks after it or its last blank line is missing, over all four interfaces",
  },
  D551: {
    text: "A broken attempt is charged by the input that its provider reported; without such a figure its input is estimated",
  },
  D511: {
    text: "Over Chat Completions, reasoning that came as data is paid for when its reply breaks or is broken off, as over Responses",
  },
  D590: {
    text: "The viewer draws waits for budget, for a slot or provider limit, and for a busy process as separate kinds of span; a wait for budget names the account, and its agent is counted apart from those at work",
  },
  D591: {
    text: "The key n opens the inbox from the list of runs; in the inbox it moves the focus to the question that it shows",
  },
  D528: {
    text: "view --url prints the address of a viewer only if that viewer proves to have the project's token and to serve the same store, and sends no token to find out",
  },
  D529: {
    text: "SIGHUP ends a command like SIGTERM: a run that is kept pauses, and the tool servers of the command end",
  },
  D516: {
    text: "A paused fork that worked off the subtasks of its origin before its first step can be resumed under limits",
  },
  D530: {
    text: "approve, deny and answer take the number of a question in the list, and @last for the newest run that asks",
  },
  D531: {
    text: "Arguments of an approval whose shape does not fit the schema that the model was shown are refused at once, by the command with exit code 2 and by the viewer with 409; nothing is stored, and corrected ones are taken",
  },
  D532: {
    text: "Arguments of an approval that only the tool's own check refuses leave the question open, and corrected ones are taken",
  },
  D533: {
    text: "init sets the module type in package.json and installs the MCP client only for a yes at the terminal, or for --module and --mcp",
  },
  D534: {
    text: "A role or configuration in TypeScript that Node reads as CommonJS is refused with the command that sets the module type",
  },
  D535: {
    text: "runs names the code for which no process could lead a paused run, also of one that has not begun",
  },
  D536: {
    text: "The wait for budget of a further call that a hook makes ends in the events and in each view when the call is granted, refused or cancelled, whatever the hook does then",
  },
  D537: {
    text: "The wait for a slot or a provider limit of a further call that a hook makes is drawn as such, and is no wait for budget",
  },
  D490: {
    text: "However many requests an MCP server over HTTP makes at once, at most 20 answers to them are sent at a time",
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
    text: "The documents do not recommend native output where a server then never calls a tool",
  },
  D573: {
    text: "The viewer never resets the connection of a POST that it refuses, whatever the length of its body; a body that never ends is read within bounds",
  },
  D574: {
    text: "A wait for budget between two attempts of a model call is reported, and drawn as a wait for budget; queuedMs counts no wait for budget",
  },
  D575: {
    text: "The time of a run under a tight budget is divided into waits for budget, waits for a slot or provider limit, and work, to the millisecond",
  },
  D576: {
    text: "The viewer lists an agent that waits for budget under a filter of its own, and not among agents at work",
  },
  D586: {
    text: "The cost of a usage is null, not 0, if no part of it is known; otherwise it is the known part",
  },
  D587: {
    text: "A sum of usages does not depend on their order, and a part that is subtracted leaves the rest, also where costs are not known",
  },
  D588: {
    text: "A paused run that was stored with a cost of 0 for calls without a price continues, and reports null",
  },
  D559: {
    text: "Mistral's thinking parts are reasoning, streamed and whole, and go back as they came",
  },
  D560: {
    text: "An overflow is recognised in the wordings that providers are reported to use; limits on rates, output and names are not taken for one",
  },
  D565: {
    text: "Over the AI SDK a turn that Anthropic pauses continues with its content sent back, within the limits of the run",
  },
  D566: {
    text: "Over the AI SDK a blocked prompt, or an empty reply with an unknown finish word, ends as filtered after one request",
  },
  D567: {
    text: "Over the AI SDK a compaction summary of the provider is not text of the answer, and goes back with the next request",
  },
  D568: {
    text: "Over the AI SDK the tokens of an advisor and the cache of a compaction are charged",
  },
  D569: {
    text: "Over the AI SDK sealed reasoning that only the finish metadata has goes back with the next request",
  },
  D570: {
    text: "Below sameOriginFetch a JSON error or a page with status 200 fails with what it says",
  },
  D571: {
    text: "Below sameOriginFetch a bare error line in a stream is reported",
  },
  D572: {
    text: "Below sameOriginFetch deflate and zstd are decoded, and any other encoding is refused by its name",
  },
  D577: {
    text: "After n, after an answer and after a stage is left, the focus is on a question or, if none is open, on the heading of the screen",
  },
  D578: {
    text: "In a window of 640 pixels, as at a zoom of 200 %, the key / reaches a visible search field",
  },
  D579: {
    text: "Text that is typed runs no shortcut, also if its field disappears or a composition is under way, and Enter that is held down answers nothing",
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
    text: "Arguments of several lines under approval are shown as text, with their line breaks",
  },
  D596: {
    text: "The viewer measures an agent against its limits by its own use, without its subagents",
  },
  D597: {
    text: "Of a completed run only what failed in it is red",
  },
  D598: {
    text: "A paused run whose questions are all answered is shown as waiting for a process",
  },
  D599: {
    text: "The header of a run shows the message of its first cause, whole where there is room",
  },
  D600: {
    text: "The row of an agent or a run that failed shows the code of its error",
  },
  D601: {
    text: "Failed attempts of model calls are visible in the list of steps and in a step",
  },
  D602: {
    text: "Failed attempts of model calls and tools are visible in show, for an agent and for a step",
  },
  D603: {
    text: "The time of a run is measured from its start to its end, or until now, in the list, the header, the overview, show and runs",
  },
  D604: {
    text: "At 1,280 pixels an open step leaves the timeline in sight",
  },
  D561: {
    text: "Each kind of transport fault has the same outcome over Chat Completions, Responses, Anthropic and Gemini, streamed and whole",
  },
  D562: {
    text: "A delay that an error in the middle of a stream states counts like Retry-After, over all four interfaces",
  },
  D620: {
    text: "An answer is sent by Ctrl Enter in its open stage or by its button: neither typed text, nor a double click, nor a question that disappears sends or opens one",
  },
  D621: {
    text: "A redaction is asked of names of members and of numbers, unseen characters of tools and problems are marked, and the page shows a bounded part of any arguments and counts the rest",
  },
  D622: {
    text: "After a field has disappeared, keys that write text and Enter are held back for a second, and no others",
  },
  D615: {
    text: "A cause names the call for which an agent ended, with the step of that call",
  },
  D630: { text: "A result that is held keeps neither its run nor the context of that alive" },
  D631: {
    text: "The result of a run whose detached agent is paused says the same whenever it is read",
  },
  D605: {
    text: "A stream that is cut at any byte is the whole reply if its end was read, and else a failure that may pass, charged with the reported input",
  },
  D606: {
    text: "An error, a page or a whole reply in place of a stream is reported with its words, whatever its content type and its form, and a whole reply is charged",
  },
  D607: {
    text: "An error behind a complete reply leaves the reply, which is not requested again; the input that a failed reply reports is charged",
  },
  D625: {
    text: "The time of a run and its rests are counted once and the same on every page, over pauses, open questions, crashes and recoveries",
  },
  D616: {
    text: "A configuration that cannot be loaded ends a command with exit code 2, its line and no secrets",
  },
  D617: {
    text: "What tools and the configuration write to stdout goes to stderr, so that stdout has the result alone",
  },
  D618: {
    text: "tail of a lost run ends and says that the run is lost and how to resume it",
  },
  D619: {
    text: "The number of an open question stays the same after others are answered",
  },
  D608: {
    text: "The text and the typed result of a turn that the provider paused are those of the turn without the pause",
  },
  D609: {
    text: "A response that is queued, or only asks for an approval of a server's tool, is an error that says so, whole and streamed, also over the AI SDK",
  },
  D610: {
    text: "Throttling in the words of a large provider is a rate limit, and no overflow of the context",
  },
  D611: {
    text: "A delay is read in each common wording, and no other number is read as a delay",
  },
  D614: {
    text: "A thinking part whose content is a text is reasoning, and goes back as a text",
  },
  D612: {
    text: "Over the AI SDK, a failed response that lacks fields keeps its code, its words and its delay",
  },
  D613: {
    text: "Searches and tools that a server ran count as its tools wherever the reply shows them, and calls of client tools do not",
  },
  D626: {
    text: "Of several model calls of one agent at once each has its own waits, in its own step; the agent waits for budget only while none of them is at work",
  },
  D627: {
    text: "The wait of each attempt of a model call for its slot is drawn once, after the retry before it, and is cut where the call, its agent or its process ends",
  },
  D628: {
    text: "In a trace the wait before a model call is that of its first attempt, as in the viewer; waits of further attempts lie within its span",
  },
  D623: {
    text: "The viewer shows the codes of a group that failed, the error of the run under the cursor whole, attempts in an open panel as they fail, no limit of a completed agent as trouble, and no agent at work in a run that no process leads",
  },
  D624: {
    text: "Once a step is completed, the viewer counts its tool calls as the account of the agent does, with those that a guard or a person denied",
  },
  D665: {
    text: "A viewer that redacts arguments offers no edit of them, and refuses one",
  },
  D543: {
    text: "A question whose arguments change is another question: keys of that moment open and send nothing, the draft of an answer is not taken along, and the page announces it",
  },
  D655: {
    text: "A response that failed or was cancelled is one error over every client of Responses, is charged with the usage that it reports, and is not requested again once it was cancelled",
  },
  D656: {
    text: "Over the AI SDK, an answer in which the package of its provider finds no event is reported with its content type, and the error names sameOriginFetch as the remedy",
  },
  D657: {
    text: "Reasoning that alternates with text is kept, streamed and sent back in its order wherever the format of its provider has an order",
  },
  D544: {
    text: "A panel, a step, an action or a run that closes returns the focus to the element that opened it, or to the list with its row",
  },
  D545: {
    text: "A filter or a search that hides what is open or has the focus leaves the focus on an element that is announced, keys that work, and a notice with a way back",
  },
  D546: {
    text: "At 1,280 and 1,000 pixels, with a panel or an open step, and at a zoom of 200 %, the rows of failed agents, and of groups with one code, show their codes whole; several codes of a group are whole without a panel, and in the title of the row; the list of runs shows an unknown cost on one line",
  },
  D658: {
    text: "Each kind of transport fault in the tests runs over Chat Completions, Responses, Anthropic and Gemini, and over the first two through the AI SDK, with one outcome",
  },
  D547: {
    text: "The result, the events, the trace, the metrics, the command, the terminal and the viewer have the same tokens, costs, counts of calls and states of each agent and step",
  },
  D548: {
    text: "What a view says is left to an agent is its limit without what it and all below it used, the tool calls of its last step included, and is for the root what is left to the run",
  },
  D549: {
    text: "A failed model call that did not cut its step off, such as a further call of a hook, is among the failed attempts of the step in the viewer and in show",
  },
  D589: {
    text: "The bar of a budget in the viewer says how much of a limit in time a run has used until now, without its rests",
  },
  D661: {
    text: "A refusal keeps its Retry-After over each client, also where a server calls it a stream of events",
  },
  D540: {
    text: "Views show the calls of a step in the order of the reply, live and stored, whatever ran, was denied or was answered first",
  },
  D541: {
    text: "A cause names the call that the error budget, counting in the order of the reply, names",
  },
  D662: {
    text: "Where several errors end an agent, its reason, its events, the run and the causes name the same one: the first",
  },
  D663: {
    text: "A refusal whose body cannot be decoded has the code and the delay of its status and headers over each client",
  },
  D640: {
    text: "Arguments that an MCP tool's schema allows are never refused over a pattern that is not run",
  },
  D641: {
    text: "A pattern of jsonSchema() means the same as in JavaScript, and a pattern of another language is refused",
  },
  D642: {
    text: "Content on a span that is longer than the limit is cut with a mark, without half a surrogate pair, and costs no more than its beginning",
  },
  D645: {
    text: "A store whose tables have another version is refused by an error that names both versions, and is not changed",
  },
  D646: {
    text: "A journal or a recording of another version, or without the record of its result, is refused by a coded error before anything happens",
  },
  D647: {
    text: "A paused run, a session and an order of another version are refused by an error that names both versions, before anything happens",
  },
  D650: {
    text: "p-queue is loaded when the first call of a process has to wait for room: neither the import of the root nor a run that never fills up loads it",
  },
  D651: {
    text: "A model call or tool body that waited, for a slot, for the limits of its provider or for its run, has the AsyncLocalStorage context and the parent span of its own run",
  },
  D652: {
    text: "A cancelled call leaves the queue at once, wherever it waits in it; room that becomes free in that moment goes to the next call, and none is lost",
  },
  D653: {
    text: "Calls pass the limits of a provider in their order: one that would fit does not pass an earlier one that waits for tokens or for a place",
  },
  D654: {
    text: "A call that finds room takes it in the same tick and enters no queue, also after other calls have waited",
  },
  D666: {
    text: "The words for a missing parameter are found in bounded time, however often its schema refers to itself",
  },
  D667: {
    text: "A parameter that is unknown or missing because its name is misspelt is reported with the name that was meant, for zod and JSON Schema alike",
  },
  D668: {
    text: "Of nested unions that do not fit, the deepest problem is named, in time that grows less than cubically with the depth",
  },
  D710: {
    text: "Wording what is wrong with arguments takes no longer than checking them: few forms of unions are read again, and the keys of an object are listed once",
  },
  D711: {
    text: "Coercion tries the next form of a union if a rule refuses the value that the first one made",
  },
  D712: {
    text: "A refusal names a rare rule of a JSON Schema by its keyword and value, and tells one of a zod schema in the words of zod",
  },
  D669: {
    text: "An option whose name is misspelt by a letter or two swapped ones is refused with the right name",
  },
  D675: {
    text: "The libraries that clean, divide and measure text at a terminal need time that grows with its length, whatever the text is",
  },
  D676: {
    text: "A row of printed text of at least two cells is no wider than the terminal and has at most 32 code units for each cell and for one more, and its rows together are the text but for spaces where it was broken",
  },
  D684: {
    text: "Requests over HTTP that an MCP server refuses authorize one after the other, also for more scope, and a request whose refusal comes late takes the token that another has got",
  },
  D670: {
    text: "20,002 spans that end in one burst all arrive at an OTLP endpoint over HTTP",
  },
  D671: {
    text: "Lost spans are one process warning with their count and the last reason; later losses are in the counts of flush()",
  },
  D672: {
    text: "A dead trace endpoint costs one warning: flush() and shutdown() keep their bound, and the program ends by itself",
  },
  D673: {
    text: "Spans that wait for a trace endpoint and spans that are being exported never exceed the size of the queue",
  },
  D680: {
    text: "A replay names a difference in a size or in a hash of an event only if no state differs",
  },
  D685: {
    text: "The sidebar of the site has the order of a newcomer: get started, core concepts, guides, reference, operations, project",
  },
  D686: {
    text: "The search of the site adds the words of the documents to the words of other libraries, and ranks guides above concepts and both above the reference",
  },
  D687: {
    text: "The home page of the site takes its title, its first paragraph and its commands from README.md, and says so if one of them is missing",
  },
  D688: {
    text: "The animation of the demo has at most 2 MB and 20 seconds, and a still picture for readers who prefer reduced motion",
  },
  D713: {
    text: "A tool call that has its slot does not begin if its agent was told to end meanwhile",
  },
  D720: {
    text: "A row of foreign text fits its width also if its letters are joined into a character without an end",
  },
  D721: {
    text: "Text of a trace endpoint or an MCP server in a warning cannot steer the terminal that shows it",
  },
  D722: {
    text: "Ten million blanks in a row do not exceed the call stack when a foreign text is shown as one line",
  },
  D723: {
    text: "Usage and text of a tree without background subagents and tight budgets do not depend on which effect ends first",
  },
  D724: {
    text: "A message is delivered with the model call that shows it: without the call neither its sender, nor an event, nor the history has it as read",
  },
  D725: {
    text: "A reply that was let through before a pause is not evaluated again: its calls are made whatever was spent meanwhile",
  },
  D726: {
    text: "An agent that ends while a subtask is paused keeps the other subtasks of its queue: finished ones with their results, and those that could not be started",
  },
  D727: {
    text: "toolsUsed counts a call of a tool that is executed elsewhere only if somebody executed it",
  },
  D728: {
    text: "Elapsed and paused time of an execution count from its start: neither waits before it nor earlier executions of the agent are in them",
  },
  D729: {
    text: "The time row of a report counts from the opening of the root's account, over all executions, without pauses only under a limit that they do not use up",
  },
  D730: {
    text: "RunError.is, ModelError.is, ToolError.is and ToolRetryError.is are true for errors of their own kind only, also of another copy of the package",
  },
  D731: {
    text: "assertEvent narrows a value to an event, and throws for an event of an unknown type",
  },
  D732: {
    text: "A finish reason without an equivalent is other, whichever API of OpenAI the reply came from",
  },
  D733: {
    text: "An option at the wrong call is refused with the call or definition to which it belongs",
  },
  D734: {
    text: "The notice to an agent whose text is no typed result says that the text is not the result as JSON, or that no text is accepted",
  },
  D735: {
    text: "A scripted call of a tool that the request does not have is a script_mismatch, unless the model allows unknown tools",
  },
  D736: {
    text: "An unfinished script names its model and its next reply",
  },
  D737: {
    text: "A plain error of a script is a failure of the model with the message of the error, and is not retried",
  },
  D738: {
    text: "The reason of each limit has its axis, the account, the maximum and the current amount",
  },
  D739: {
    text: "`resume` with the JSON text of a paused run rejects with `invalid_argument` and names `readPausedRun`",
  },
  D700: {
    text: "The workflow runs the gate on the Node of package.json, with a time limit and the permission to read alone",
  },
  D701: {
    text: "Counts of words and forms that make documents and comments hard to read stay within bounds that are only ever tightened",
  },
  D702: {
    text: "The index of the examples has each program once, with the command that runs it",
  },
  D740: {
    text: "Each call that does not run reports its index and the message that the model reads",
  },
  D703: {
    text: "The program on the page for coding agents runs as it is shown, with and without an approval",
  },
  D704: {
    text: "llms.txt lists each document that users read once, with a sentence about it, for the package and for the site",
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
    text: "The texts of a run round no used budget away, bound what a subagent has left by its parent, give an error code once, and tell a pause from an end and an answered run from a working one",
  },
} as const satisfies Readonly<Record<string, Requirement>>;

export type RequirementId = keyof typeof requirements;

export const REQUIREMENTS: Readonly<Record<RequirementId, Requirement>> = requirements;
