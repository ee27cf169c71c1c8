// Calls that lack the context which a role needs, and other mistakes in the same calls.

import { z } from "zod";

import {
  defineAgent,
  defineTool,
  Orchestrator,
  type PausedRun,
  type ToolContext,
} from "../../../src/index.ts";
import type { Engine } from "../../../src/engines.ts";
import type { Model } from "../../../src/model/model.ts";

declare const model: Model;
declare const engine: Engine;
declare const paused: PausedRun;
interface User {
  readonly userId: string;
}

const whoAmI = defineTool({
  name: "whoAmI",
  description: "Returns the id of the user.",
  inputSchema: z.object({}),
  execute: (_input, { context }: ToolContext<User>) => context.userId,
});
const clerk = defineAgent({ name: "clerk", instructions: "Work.", model, tools: [whoAmI] });
const writer = defineAgent({ name: "writer", instructions: "Write.", model });
const shop = new Orchestrator({ roles: [clerk] });
const press = new Orchestrator({ roles: [writer] });
const context: User = { userId: "ann" };
const request = { runId: "run", role: "clerk", task: "Work." };

// advice: This role needs a context. Pass it: start(role, task, { context }).
shop.start(clerk, "Work.");
// advice: This role needs a context. Pass it: start(role, task, { context }).
shop.start(Math.random() > 0.5 ? clerk : writer, "Work.");
// advice: The roles of this orchestrator need a context. Pass it: resume(run, { context }).
shop.resume(paused);
// advice: The roles of this orchestrator need a context. Pass it: resume(run, { context }).
shop.resume(JSON.parse("{}"));
// advice: The roles of this orchestrator need a context. Pass it: fork(run, { context }).
shop.fork(paused);
// advice: The roles of this orchestrator need a context. Pass it: resume(run, { context }).
void shop.resume("run");
// advice: The roles of this orchestrator need a context. Pass it: resumeLostRuns({ context }).
void shop.resumeLostRuns();
// advice: The roles of this orchestrator need a context. Pass it: execute(request, { context }).
void shop.execute(request);
// advice: The roles of this orchestrator need a context. Pass it: startWorker(engine, { context }).
void shop.startWorker(engine);

shop.start(clerk, "Work.", { context });
shop.start(writer, "Write.");
shop.resume(paused, { context });
press.resume(paused);
press.fork(paused);
void press.resume("run");
void press.resumeLostRuns();
void press.execute(request);
void press.startWorker(engine);

// error: Property 'context' is missing
shop.start(clerk, "Work.", {});
// error: Did you mean to write 'userId'?
shop.start(clerk, "Work.", { context: { userID: "ann" } });
// error: Type 'number' is not assignable to type 'string'.
shop.start(clerk, "Work.", { context: { userId: 1 } });
// error: Did you mean to write 'budget'?
shop.start(writer, "Write.", { budgett: {} });
// error: Expected at least 2 arguments, but got 1.
shop.start(writer);
// error: Argument of type 'number' is not assignable to parameter of type 'MessageContent'.
shop.start(writer, 3);
// error: Argument of type 'string' is not assignable to parameter of type 'AgentRole<unknown, unknown>'.
shop.start("writer", "Write.");
// error: Argument of type 'number' is not assignable to parameter of type 'string | PausedRun'.
press.resume(3);
// error: Type 'string' is not assignable to type 'readonly Answer[]'.
press.resume(paused, { answers: "yes" });
