// Goal: a hundred runs call one server through one `modelLimits` object.
// Method: a real server that holds every request until the test releases it.

import { expect } from "vitest";
import { z } from "zod";

import { modelLimits } from "../../../src/model/model-limits.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { proves } from "../../harness/proves.ts";
import { latch, type Latch } from "../../harness/run-scripted.ts";
import { roleOf } from "../../support/limited-models.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { OpenAiServer, says, type WireRequest } from "../../support/openai-server.ts";

const RUNS = 100;
const CONCURRENT = 8;

const BodySchema = z.object({
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
});

/** Returns the task of a request. */
function taskOf({ body }: WireRequest): string {
  const { messages } = BodySchema.parse(body);
  return messages.find(({ role }) => role === "user")?.content ?? "";
}

/** Requests that are held at the server, in the order of their arrival. */
class Held {
  readonly tasks: string[] = [];
  most = 0;
  readonly #gates: Latch[] = [];
  #open = 0;
  #next = latch();

  async take(request: WireRequest): Promise<void> {
    const gate = latch();
    this.#open += 1;
    this.most = Math.max(this.most, this.#open);
    this.tasks.push(taskOf(request));
    this.#gates.push(gate);
    this.#next.open();
    await gate.opened;
    this.#open -= 1;
  }

  letGo(index: number): void {
    this.#gates[index]?.open();
  }

  async until(arrived: number): Promise<void> {
    while (this.tasks.length < arrived) {
      this.#next = latch();
      await this.#next.opened;
    }
  }
}

proves(
  ["M65"],
  "serves 100 runs of ten orchestrators in their order, with at most eight requests at once",
  async () => {
    const held = new Held();
    await using server = await OpenAiServer.start(async (request) => {
      await held.take(request);
      return says("Done.");
    });
    const limits = modelLimits({ maxConcurrentRequests: CONCURRENT });
    const orchestrators = Array.from({ length: 10 }, () => new Orchestrator());
    const tasks = Array.from({ length: RUNS }, (_none, index) => `task ${index + 1}`);
    // One model per run: the runs share only the limits.
    const runs = tasks.map((task, index) => {
      const orchestrator = orchestrators[index % orchestrators.length] ?? new Orchestrator();
      return orchestrator.start(roleOf(modelAt(server, { limits })), task);
    });
    await held.until(CONCURRENT);
    for (let index = 0; index < RUNS; index += 1) {
      held.letGo(index);
      await held.until(Math.min(RUNS, CONCURRENT + index + 1));
    }
    const texts = await Promise.all(runs.map(async (run) => (await run.result).text));
    expect(texts).toEqual(tasks.map(() => "Done."));
    expect(held.most).toBe(CONCURRENT);
    expect(new Set(held.tasks.slice(0, CONCURRENT))).toEqual(new Set(tasks.slice(0, CONCURRENT)));
    expect(held.tasks.slice(CONCURRENT)).toEqual(tasks.slice(CONCURRENT));
  },
);
