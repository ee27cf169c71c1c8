// A worker in a process of its own, for tests that kill and freeze it. Its options are the JSON of its only argument. Says `serves` over its
// channel, and closes when it gets SIGTERM.

import { z } from "zod";

import { pgBossEngine } from "../../src/engine/pg-boss/pg-boss-engine.ts";
import { restateEngine } from "../../src/engine/restate/restate-engine.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { Orchestrator } from "../../src/index.ts";
import { isRecord, parseJson } from "../../src/kernel/json.ts";
import { localTracing } from "../../src/orchestrator/tree/local-tracing.ts";
import { postgresStore } from "../../src/store/postgres/postgres-store.ts";
import { SURVEY_LIMITS, surveyRoles, type SurveyOptions } from "../support/surveys.ts";

/** How a worker of the tests is set up. */
export interface SurveyWorkerOptions extends SurveyOptions {
  readonly connectionString: string;
  readonly schema: string;
  readonly engine:
    | { readonly name: "pg-boss"; readonly jobs: string }
    | {
        readonly name: "restate";
        readonly ingressUrl: string;
        readonly adminUrl: string;
        readonly workerUrl: string;
        readonly port: number;
      };
}

const OptionsSchema = z.custom<SurveyWorkerOptions>(isRecord);
const options = OptionsSchema.parse(parseJson(process.argv[2] ?? ""));
const { connectionString, schema } = options;
const store = postgresStore({ connectionString, schema });
const orchestrator = new Orchestrator({
  roles: surveyRoles(options),
  store,
  limits: SURVEY_LIMITS,
  tracing: localTracing(),
});
const engine = engineOf(options);
const worker = await orchestrator.work(engine);
process.once("SIGTERM", () => void close());
process.send?.("serves");

async function close(): Promise<void> {
  await worker.close();
  await engine.close?.();
  await store.close();
  process.disconnect();
}

function engineOf({ engine: place }: SurveyWorkerOptions): Engine {
  if (place.name === "pg-boss")
    return pgBossEngine({ connectionString, schema: place.jobs, pollIntervalMs: 100 });
  const { name: _restate, ...address } = place;
  return restateEngine(address);
}
