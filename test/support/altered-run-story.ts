// A paused run with everything that can be altered in it: a budget that only the run holds, a grant, denied
// tools, questions of three agents, an external call and a subagent in the background. Once it is resumed,
// each agent calls all that it knows until a limit stops it.

import type { PausedRun } from "../../src/orchestrator/durability/paused-run.ts";
import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../../src/agent/agent-role.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { isRecord } from "../../src/kernel/json.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import { localTracing } from "./local-tracing.ts";
import { AnswerSchema, QuestionSchema, type Answer } from "../../src/protocol/question.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import { calls, part, spawn, use } from "../harness/scripted-agents.ts";
import { externalTool } from "./pause-stories.ts";

/** Everything that a continued run did. */
export interface Deeds {
  readonly steps: number;
  readonly tokens: number;
  readonly toolCalls: number;
  readonly subagents: number;
  /** The steps of each agent, by its path. */
  readonly stepsByPath: readonly (readonly [path: string, steps: number])[];
  readonly toolRuns: readonly ToolRun[];
}

/** An execution of a tool body. */
interface ToolRun {
  /** The tool with its arguments. */
  readonly call: string;
  /** The step and the id of the call. */
  readonly place: string;
}

/** The story up to its pause. */
export interface PausedStory {
  /** The paused run as JSON text. */
  readonly text: string;
  /** Places of calls that ran before the pause. */
  readonly before: readonly string[];
}

type Play = () => ReturnType<typeof calls>;

interface Cast {
  readonly lead: AgentRole;
  readonly toolRuns: ToolRun[];
}

const LIMITS = { maxDepth: 2, maxBreadthPerParent: 4, maxTotalSubagents: 5 };

/** The roles of the story; `isGreedy`: after the pause. */
function cast(isGreedy: boolean): Cast {
  const toolRuns: ToolRun[] = [];
  const recorded = (name: string, needsApproval = false): FunctionTool =>
    defineTool({
      name,
      description: `Does ${name}.`,
      inputSchema: z.object({ amount: z.number().optional() }),
      needsApproval,
      maxIdenticalCalls: "unlimited",
      execute: (input, { idempotencyKey }) => {
        const place = idempotencyKey.slice(idempotencyKey.indexOf("/") + 1);
        toolRuns.push({ call: `${name} ${JSON.stringify(input)}`, place });
        return "done";
      },
    });
  const tools = (...names: readonly string[]) => names.map((name) => recorded(name));
  const play =
    (first: ReturnType<typeof calls>, later: ReturnType<typeof calls>): Play =>
    () =>
      isGreedy ? later : first;
  const helper = part("helper", play(calls(use("look")), calls(use("look"), use("danger"))), {
    tools: tools("look", "danger"),
    budget: { steps: 2 },
  });
  const worker = part(
    "worker",
    play(
      calls({ toolName: "sign", arguments: { amount: 7 } }, use("look")),
      calls(use("look"), use("danger"), spawn("helper", "Help.")),
    ),
    {
      tools: [...tools("look", "danger"), recorded("sign", true)],
      subagents: [helper.role],
      budget: { steps: 3, toolCalls: 20 },
    },
  );
  const lead = part(
    "lead",
    play(
      calls(
        {
          toolName: SPAWN_TOOL_NAME,
          arguments: { role: "worker", task: "Wait.", background: true },
        },
        spawn("worker", "Sign it."),
        { toolName: "pay", arguments: { amount: 3 } },
        { toolName: "mail", arguments: { amount: 4 } },
        use("look"),
      ),
      calls(use("look"), spawn("worker", "More.")),
    ),
    {
      tools: [...tools("look"), recorded("pay", true), externalTool("mail")],
      subagents: [worker.role],
      contextPolicy: { deniedTools: ["danger"] },
      delegation: { background: true, reserve: { steps: 1 } },
      budget: { steps: 30, totalTokens: 1_500 },
    },
  );
  return { lead: lead.role, toolRuns };
}

function orchestratorOf(roles: readonly AgentRole[], more: OrchestratorOptions): Orchestrator {
  return new Orchestrator({
    clock: new ManualClock(),
    ids: sequentialIds(),
    tracing: localTracing(),
    limits: LIMITS,
    roles,
    ...more,
  });
}

/** Runs the story up to its pause. `options`: of the orchestrator. */
export async function pauseStory(options: OrchestratorOptions = {}): Promise<PausedStory> {
  const { lead, toolRuns } = cast(false);
  const clock = new ManualClock();
  const run = orchestratorOf([lead], { clock, ...options }).start(lead, "Lead.", {
    budget: { steps: 12, toolCalls: 40 },
  });
  run.grant({ steps: 2 }, { by: "Ada" });
  clock.advance(1); // A later grant would be told from what the first step found.
  const { pausedRun, questions } = await run.settled;
  if (pausedRun === undefined || questions.length !== 4) throw new Error("It did not pause.");
  return { text: JSON.stringify(pausedRun), before: toolRuns.map(({ place }) => place) };
}

/**
 * Resumes the story, altered or not. Returns everything that the run did, or the code of the
 * refusal.
 */
export async function resumeStory(
  text: string,
  options: OrchestratorOptions = {},
): Promise<Deeds | string> {
  const { lead, toolRuns } = cast(true);
  try {
    // Only parses the text: the orchestrator has to find the alteration.
    const stored = z.custom<PausedRun>().parse(JSON.parse(text));
    const run = orchestratorOf([lead], options).resume(stored, { answers: answersIn(text) });
    const { usage, agents } = await run.settled;
    const { steps, totalTokens: tokens, toolCalls } = usage.total;
    const stepsByPath = agents.map((agent) => [agent.agentPath, agent.usage.own.steps] as const);
    return { steps, tokens, toolCalls, subagents: agents.length - 1, stepsByPath, toolRuns };
  } catch (error) {
    if (EspalierError.is(error)) return error.code;
    throw error;
  }
}

/** Answers to the questions in the text: the person who answers is shown the altered run. */
function answersIn(text: string): readonly Answer[] {
  const run: unknown = JSON.parse(text);
  const asked: unknown = isRecord(run) ? run["questions"] : undefined;
  const list: readonly unknown[] = Array.isArray(asked) ? asked : [];
  return list.flatMap((one) => {
    const question = QuestionSchema().safeParse(one).data;
    if (question === undefined) return [];
    const { questionId, argumentsHash, kind } = question;
    const type = kind === "approval" ? "approved" : "result";
    const result = kind === "approval" ? {} : { result: "sent" };
    return AnswerSchema().safeParse({ type, questionId, argumentsHash, ...result }).data ?? [];
  });
}

const MOST = { steps: 14, tokens: 1_500, toolCalls: 40, subagents: 5 } as const;
const MOST_RUNS: ReadonlyMap<string, number> = new Map([
  ["look {}", Infinity],
  ['pay {"amount":3}', 1],
  ['sign {"amount":7}', 2],
]);
const MOST_STEPS: ReadonlyMap<string, number> = new Map([
  ["lead", 14],
  ["worker", 3],
  ["helper", 2],
]);

/** Lists what the run did beyond what its limits, denials and approvals allow. */
export function findExcess(
  { stepsByPath, toolRuns, ...totals }: Deeds,
  before: PausedStory["before"],
): readonly string[] {
  const keys = ["steps", "tokens", "toolCalls", "subagents"] as const;
  const beyond = keys.filter((key) => totals[key] > MOST[key]);
  const ofAgents = stepsByPath.filter(([path, steps]) => {
    const role = path.slice(path.lastIndexOf("/") + 1).split("#")[0] ?? "";
    return steps > (MOST_STEPS.get(role) ?? 0);
  });
  const runs = Map.groupBy(toolRuns, ({ call }) => call);
  const tools = [...runs].filter(([call, { length }]) => length > (MOST_RUNS.get(call) ?? 0));
  const places = [...before, ...toolRuns.map(({ place }) => place)];
  const repeated = places.filter((place, index) => places.indexOf(place) !== index);
  return [
    ...beyond,
    ...ofAgents.map(([path]) => `steps of ${path}`),
    ...tools.map(([call]) => call),
    ...repeated.map((place) => `twice ${place}`),
  ];
}
