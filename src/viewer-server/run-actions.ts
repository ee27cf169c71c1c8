// RunActions: performs the actions of the page on runs, through an attached orchestrator that owns
// the run, or through the mailbox of the run. Owns the recent idempotency keys, so that each action
// is performed once.

import { EspalierError } from "../kernel/error.ts";
import { omitUndefined, sameJson } from "../kernel/json.ts";
import { sendAnswers } from "../orchestrator/run/send-answers.ts";
import { sendMail } from "../orchestrator/run/run-mail.ts";
import type { RunId } from "../protocol/ids.ts";
import { lazySchema, lazyUnion, z } from "../protocol/lazy-schema.ts";
import { AnswerSchema, type Answer, type Question } from "../protocol/question.ts";
import { createUnknownRunError } from "../store/store-errors.ts";
import type { ActionRequest, ActionResult, ViewerAction } from "../read-model/viewer-data.ts";
import type { ReaderDependencies } from "./run-fold-cache.ts";
import { RefusedRequest } from "./http-reply.ts";
import { hasOwner } from "./viewpoint.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import type { Orchestrator } from "../orchestrator/orchestrator.ts";

const key = lazySchema(() => z.string().min(1).max(200));
const ActionRequestSchema = lazyUnion("type", () => [
  z.strictObject({
    key: key(),
    type: z.literal("answer"),
    answers: z.array(AnswerSchema()).min(1).max(1_000).readonly(),
  }),
  z.strictObject({
    key: key(),
    type: z.literal("cancel"),
    message: z.string().min(1).max(10_000).exactOptional(),
  }),
  z.strictObject({ key: key(), type: z.literal("pause") }),
  z.strictObject({ key: key(), type: z.literal("resume") }),
]);

/** Number of idempotency keys that are remembered. */
const MAX_KEYS = 1_000;

interface ActionDependencies extends ReaderDependencies {
  readonly attached: AttachedOrchestrators;
  readonly allowed: readonly ViewerAction[];
  /** Name of the person who uses the page. */
  readonly by: string | undefined;
}

interface Done {
  readonly request: ActionRequest;
  readonly outcome: Promise<ActionResult>;
}

export class RunActions {
  readonly #dependencies: ActionDependencies;
  /** By run and key, oldest first. */
  readonly #done = new Map<string, Done>();

  constructor(dependencies: ActionDependencies) {
    this.#dependencies = dependencies;
  }

  /** Performs an action. Rejects with an `EspalierError`, or with the reason of a refusal. */
  take(runId: RunId, input: unknown): Promise<ActionResult> {
    const request = parseActionRequest(input);
    if (!this.#dependencies.allowed.includes(request.type))
      throw new RefusedRequest(
        "action_off",
        `The action ${request.type} is disabled in this viewer. Enable it with the option actions.`,
      );
    const name = JSON.stringify([runId, request.key]);
    const known = this.#done.get(name);
    if (known !== undefined && !sameJson(known.request, request))
      throw new RefusedRequest(
        "key_used",
        "The key of this request was already used by another one. Use a new key.",
      );
    if (known !== undefined) return known.outcome;
    const outcome = this.#do(runId, request);
    this.#done.set(name, { request, outcome });
    const [oldest] = this.#done.keys();
    if (this.#done.size > MAX_KEYS && oldest !== undefined) this.#done.delete(oldest);
    // A refused request changed nothing, so its key may be used again.
    outcome.catch(() => void this.#done.delete(name));
    return outcome;
  }

  async #do(runId: RunId, request: ActionRequest): Promise<ActionResult> {
    switch (request.type) {
      case "answer":
        return await this.#answer(runId, request);
      case "cancel":
        return await this.#cancel(runId, request);
      case "pause":
        return await this.#pause(runId, request);
      case "resume":
        return await this.#resume(runId);
    }
  }

  /**
   * Posts the answers to the mailbox, where the first answer to a question counts. The run
   * continues once no question is open.
   */
  async #answer(
    runId: RunId,
    request: Extract<ActionRequest, { readonly type: "answer" }>,
  ): Promise<ActionResult> {
    const { by } = this.#dependencies;
    const answers = request.answers.map((answer) => ({ ...omitUndefined({ by }), ...answer }));
    const { isShown, isWhole } = this.#dependencies.content;
    if (isShown && !isWhole && answers.some(isEdited))
      throw new RefusedRequest(
        "content_redacted",
        "Cannot approve with edited arguments: this viewer redacts arguments, so the edit may be based on redacted text. Approve or deny the call, or edit it with: espalier approve --arguments",
      );
    const here = this.#dependencies.attached.findOwner(runId);
    const open: readonly Question[] = await (here === undefined
      ? sendAnswers(this.#dependencies, runId, answers)
      : here.answer(runId, answers));
    const isWaiting = open.length > 0 && here === undefined;
    const shown = open.map((question) => this.#dependencies.content.showQuestion(question));
    return {
      hasOwner: isWaiting ? await this.#hasOwner(runId) : await this.#continueRun(runId),
      openQuestions: shown,
    };
  }

  async #cancel(
    runId: RunId,
    {
      message = `${this.#dependencies.by ?? "viewer"} cancelled the run.`,
      key,
    }: Extract<ActionRequest, { readonly type: "cancel" }>,
  ): Promise<ActionResult> {
    const here = this.#dependencies.attached.findOwner(runId);
    if (here !== undefined) {
      here.cancel(runId, { message }).catch(() => undefined); // The journal shows the outcome.
      return { hasOwner: true };
    }
    await sendMail(this.#dependencies.store, runId, { type: "cancel", message }, `cancel:${key}`);
    return { hasOwner: await this.#continueRun(runId) };
  }

  async #pause(
    runId: RunId,
    { key }: Extract<ActionRequest, { readonly type: "pause" }>,
  ): Promise<ActionResult> {
    const here = this.#dependencies.attached.findOwner(runId)?.findActiveRun(runId);
    if (here !== undefined) {
      here.requestPause();
      return { hasOwner: true };
    }
    if (!(await this.#hasOwner(runId)))
      throw new RefusedRequest("not_led", "Cannot pause the run: no process runs it.");
    await sendMail(this.#dependencies.store, runId, { type: "pause" }, `pause:${key}`);
    return { hasOwner: true };
  }

  async #resume(runId: RunId): Promise<ActionResult> {
    const { attached } = this.#dependencies;
    if (await this.#hasOwner(runId))
      throw new RefusedRequest("run_active", "Cannot resume the run: a process already runs it.");
    const outcome = await attached.continueRun(runId);
    if (outcome === undefined)
      throw new RefusedRequest(
        "no_roles",
        "Cannot resume the run here: this viewer has no orchestrator with the roles of the run. Resume it where its roles are.",
      );
    if (outcome instanceof EspalierError) throw outcome;
    if (outcome === "led") return { hasOwner: true };
    throw new RefusedRequest("run_ended", "Cannot change the run: it has ended.");
  }

  /**
   * Continues a run that has work to do. Returns true if a process owns the run. A failure to
   * continue the run here does not fail the request.
   */
  async #continueRun(runId: RunId): Promise<boolean> {
    if (await this.#hasOwner(runId)) return true;
    return (await this.#dependencies.attached.continueRun(runId)) === "led";
  }

  async #hasOwner(runId: RunId): Promise<boolean> {
    const { store, clock, attached } = this.#dependencies;
    if (attached.findOwner(runId) !== undefined) return true;
    const stored = await store.find(runId);
    if (stored === undefined) throw createUnknownRunError(runId);
    return hasOwner(stored, clock.nowMs());
  }
}

/** Parses a request. Throws 400 for an invalid one. */
function parseActionRequest(input: unknown): ActionRequest {
  const { data, error } = ActionRequestSchema().safeParse(input);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : ` (${issue.path.join(".")})`;
  const message = `Expected an action with a key, got something else${where}. See ActionRequest.`;
  throw new RefusedRequest("invalid_request", message);
}

/** Returns true for an approval with edited arguments. */
function isEdited(answer: Answer): boolean {
  return answer.type === "approved" && answer.arguments !== undefined;
}

/** Methods of an orchestrator that the viewer calls. */
type ActingOrchestrator = Pick<
  Orchestrator,
  "findActiveRun" | "answer" | "cancel" | "sendCommand" | "resume"
>;

/**
 * Outcome of an attempt to continue a run. `led`: a process owns the run, here or elsewhere;
 * `over`: the run has ended meanwhile.
 */
type ContinueOutcome = "led" | "over" | EspalierError;

type ContextOfRun = (runId: RunId) => unknown;

export class AttachedOrchestrators {
  readonly #attached: { orchestrator: ActingOrchestrator; contextOf: ContextOfRun | undefined }[] =
    [];

  add(orchestrator: ActingOrchestrator, contextOf: ContextOfRun | undefined): void {
    this.#attached.push({ orchestrator, contextOf });
  }

  get isEmpty(): boolean {
    return this.#attached.length === 0;
  }

  /** Returns the orchestrator that owns the run. */
  findOwner(runId: RunId): ActingOrchestrator | undefined {
    return this.#attached.find(
      ({ orchestrator }) => orchestrator.findActiveRun(runId) !== undefined,
    )?.orchestrator;
  }

  /**
   * Continues a run with the first orchestrator that can. `undefined` if none is attached. Returns
   * errors of the run instead of throwing them.
   */
  async continueRun(runId: RunId): Promise<ContinueOutcome | undefined> {
    let problem: EspalierError | undefined;
    for (const { orchestrator, contextOf } of this.#attached) {
      try {
        const context = await contextOf?.(runId);
        const run = await orchestrator.resume<AgentRole>(runId, { context });
        run.result.catch(() => undefined); // The journal shows the outcome.
        return "led";
      } catch (cause) {
        if (!EspalierError.is(cause)) throw cause;
        if (cause.code === "run_active" || cause.code === "run_ended")
          return cause.code === "run_active" ? "led" : "over";
        problem ??= cause;
      }
    }
    return problem;
  }
}
