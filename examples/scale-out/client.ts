// A client on any machine that has the store and the engine. It starts a run, answers its questions
// and prints its result. With the same id after a crash, it continues the same run.
//
//   node examples/scale-out/client.ts order-4711

import { approve } from "espalier";
import { RunClient } from "espalier/engines";

import { engine, store } from "./engine.ts";

const [, , runId = "order-4711"] = process.argv;

const client = new RunClient({ store, engine, rolesVersion: "v1" });
const run = await client.start("lead", "Compare three markets.", {
  runId,
  budget: { steps: 50 },
});

let result = await run.getResult();
while (result.status === "paused") {
  for (const { agentPath, toolName, arguments: given } of result.questions)
    console.log(`${agentPath} asks for ${toolName}: ${JSON.stringify(given)}`);
  // In your program, a person decides.
  const answers = result.questions.map((question) => approve(question));
  await run.answer(answers);
  result = await run.getResult();
}
console.log(`${result.status}: ${result.text}`);

await engine.close?.();
await store.close();
