// A worker in its own process, for tests that kill and freeze it. Its options are the JSON of its
// only argument. Sends `serves` over its channel, and closes on SIGTERM.

import { z } from "zod";

import { pgBossEngine } from "../../../src/engine/pg-boss/pg-boss-engine.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Orchestrator } from "../../../src/index.ts";
import { omitUndefined, isRecord, parseJson } from "../../../src/kernel/json.ts";
import { localTracing } from "../local-tracing.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { forwarding } from "../journal/forwarding-store.ts";
import { appendLine } from "../line-log.ts";
import { SURVEY_LIMITS, surveyRoles, type SurveyOptions } from "../surveys.ts";

/** How a worker of the tests is set up. */
export interface SurveyWorkerOptions extends SurveyOptions {
  readonly connectionString: string;
  readonly schema: string;
  /** How many runs the worker executes at once. Default: that of `startWorker`. */
  readonly maxRuns?: number;
  /** The file that lists the batches that the store has accepted. */
  readonly batchLog: string;
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

/** Records that the store has accepted, and the owner of their run. */
export interface TakenBatch {
  readonly runId: string;
  readonly epoch: number;
  readonly firstNumber: number;
  readonly count: number;
}

const OptionsSchema = z.custom<SurveyWorkerOptions>(isRecord);
const options = OptionsSchema.parse(parseJson(process.argv[2] ?? ""));
const { connectionString, schema } = options;
const store = noting(postgresStore({ connectionString, schema }));
const orchestrator = new Orchestrator({
  roles: surveyRoles(options),
  store,
  limits: SURVEY_LIMITS,
  maxCrashes: 1_000, // a survey may be hit by every kill
  tracing: localTracing(),
});
const engine = engineOf(options);
const worker = await orchestrator.startWorker(engine, omitUndefined({ maxRuns: options.maxRuns }));
process.once("SIGTERM", () => void close());
process.send?.("serves");

async function close(): Promise<void> {
  await worker.close();
  await engine.close?.();
  await store.close();
  process.disconnect();
}

/** Logs each accepted batch with the ownership under which it was written. */
function noting(real: Store): Store {
  const append: Store["append"] = async (ownership, batch) => {
    await real.append(ownership, batch);
    const { runId, epoch } = ownership;
    const { firstNumber, records } = batch;
    const taken: TakenBatch = { runId, epoch, firstNumber, count: records.length };
    appendLine(options.batchLog, taken);
  };
  return forwarding(real, { append });
}

function engineOf({ engine: place }: SurveyWorkerOptions): Engine {
  if (place.name === "pg-boss")
    return pgBossEngine({ connectionString, schema: place.jobs, pollIntervalMs: 100 });
  const { name: _restate, ...address } = place;
  return restateEngine(address);
}
