// Opens journals: of a new run, of a paused run, and of a run whose process crashed.

import { hostname } from "node:os";
import { pid } from "node:process";

import { EspalierError } from "../../kernel/error.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { omitUndefined } from "../../kernel/json.ts";
import type { RunId } from "../../protocol/ids.ts";
import { formatContent, type MessageContent } from "../../protocol/message-content.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { Ownership, RunOwner, RunStore } from "../../store/run-store.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { PausedRunRecord } from "./paused-run.ts";
import type { SessionRef } from "../sessions/session-ref.ts";
import type { FoldedJournal } from "./fold-journal.ts";
import {
  Journal,
  retry,
  type JournalOptions,
  type OpenJournal,
  type RunStorage,
} from "./journal.ts";
import { JOURNAL_VERSION } from "./journal-record.ts";
import { PersistedEffects } from "./persisted-effects.ts";
import { RunJournal } from "./run-journal.ts";

const MOST_TITLE_CHARACTERS = 200;

/** Returns the title of a run, for lists of runs. */
export function toRunTitle(role: string, task: MessageContent): string {
  return `${role}: ${formatContent(task)}`.slice(0, MOST_TITLE_CHARACTERS);
}

/** Returns the journal of a new run. `claimed` is the ownership of an existing empty journal. */
export function startJournal(
  storage: RunStorage,
  run: Headed,
  title: string,
  claimed?: Ownership,
): RunJournal {
  const owner = createOwner();
  const create = (): Promise<Ownership> =>
    retry(storage.clock, () => createOrClaim(storage, run.runId, title, owner));
  const open = async (): Promise<OpenJournal> => ({
    ownership: claimed ?? (await create()),
    recordCount: 0,
    posts: [],
  });
  return beginJournal({ ...storage, open, isClaimed: claimed !== undefined }, run);
}

/**
 * Creates the journal of a run, or claims an empty one, whose process crashed before its first
 * record.
 */
async function createOrClaim(
  { store, staleAfterMs }: RunStorage,
  runId: RunId,
  title: string,
  owner: RunOwner,
): Promise<Ownership> {
  try {
    return await store.create(runId, title, owner);
  } catch (cause) {
    const isThere = EspalierError.is(cause) && cause.code === "run_exists";
    if (!isThere || (await store.find(runId))?.recordCount !== 0) throw cause;
    const ownership = await store.claim(runId, { owner, staleAfterMs }).catch(() => undefined);
    if (ownership === undefined) throw cause;
    if ((await store.find(runId))?.recordCount === 0) return ownership;
    await releaseClaim(store, ownership); // Another process was faster, and has already released the run.
    throw cause;
  }
}

/** Content of the first record of a journal. */
type Headed = Pick<PausedRunRecord, "runId" | "limits"> & {
  readonly session?: SessionRef | undefined;
  /** Span of its caller. */
  readonly traceparent?: string | undefined;
  readonly forkedFrom?: EventBody<"run.started">["forkedFrom"];
};

/** Returns a journal with its first record. */
function beginJournal(options: JournalOptions, { runId, limits, ...more }: Headed): RunJournal {
  const journal = createJournal(options);
  const head = { type: "run", version: JOURNAL_VERSION, runId, limits: { ...limits } } as const;
  const { session, traceparent, forkedFrom } = more;
  journal.append({ ...head, ...omitUndefined({ session, traceparent, forkedFrom }) });
  return journal;
}

function createJournal(options: JournalOptions): RunJournal {
  return new RunJournal(new Journal(options), {
    effects: (journal, agent, inFlight) => new PersistedEffects(journal, agent, inFlight),
    hasDeadlines: true,
  });
}

/**
 * Returns the journal of a paused run that continues: a new one, or its existing one if that has
 * not advanced since. `refused` is called if the store rejects the journal. `forkedFrom` is the
 * origin of a fork.
 */
export function createResumedJournal(
  storage: RunStorage,
  run: PausedRunRecord,
  { refused, forkedFrom }: { readonly refused?: () => void } & Pick<Headed, "forkedFrom">,
): RunJournal {
  const owner = createOwner();
  const open = async (): Promise<OpenJournal> => {
    try {
      return await retry(storage.clock, () => reopenJournal(storage, run, owner));
    } catch (cause) {
      refused?.();
      throw cause;
    }
  };
  const journal = beginJournal({ ...storage, open }, { ...run, forkedFrom });
  // The root of a fork has no execution yet. Its first one follows.
  const agents = run.agents.map((agent) => ({ ...agent, execution: Math.max(1, agent.execution) }));
  journal.append({ type: "restored", run: { ...run, agents } });
  return journal;
}

/** Creates or claims the journal of a run that was paused. Earlier work is not repeated. */
async function reopenJournal(
  { store, staleAfterMs }: RunStorage,
  run: PausedRunRecord,
  owner: RunOwner,
): Promise<OpenJournal> {
  const { runId } = run;
  const stored = await store.find(runId);
  if (stored === undefined) {
    const [root] = run.agents;
    const title = toRunTitle(root?.role ?? "", root?.task ?? "");
    return { ownership: await store.create(runId, title, owner), recordCount: 0, posts: [] };
  }
  // Without records, its first process crashed before the first record.
  const before = stored.recordCount > 0 ? await fold(store, runId) : undefined;
  const { status, run: persistedRun, recordCount = 0, posts = [] } = before ?? {};
  const isSame = status !== "open" && persistedRun?.eventCount === run.eventCount;
  if (before !== undefined && !isSame) throw createAlreadyResumedError(run);
  const ownership = await store.claim(runId, { owner, staleAfterMs });
  if ((await store.find(runId))?.recordCount === recordCount)
    return { ownership, recordCount, posts };
  await releaseClaim(store, ownership); // Another process was faster, and has already released the run.
  throw createAlreadyResumedError(run);
}

/** Loads the reader of journals on first use, because most runs never need it. */
async function fold(store: RunStore, runId: RunId): Promise<FoldedJournal> {
  const { foldJournal } = await import("./fold-journal.ts");
  return await foldJournal(runId, store.read(runId));
}

/** Releases a claimed run that cannot continue here. Its status becomes that of its journal. */
export async function releaseClaim(store: RunStore, ownership: Ownership): Promise<void> {
  const { runId } = ownership;
  const isEmpty = (await store.find(runId))?.recordCount === 0;
  const status = isEmpty ? "open" : (await fold(store, runId)).status;
  await store.release(ownership, status);
}

/**
 * Returns the journal of a run that continues after its process crashed. `failure` is the error if
 * the run only continues to fail.
 */
export function createRecoveredJournal(
  storage: RunStorage,
  ownership: Ownership,
  { recordCount, posts, codec }: FoldedJournal,
  failure?: ErrorRecord,
): RunJournal {
  const open = (): Promise<OpenJournal> => Promise.resolve({ ownership, recordCount, posts });
  const journal = createJournal({ ...storage, open, codec, isClaimed: true });
  journal.append({ type: "recovered", ...omitUndefined({ failure }) });
  return journal;
}

/**
 * Returns this process as an owner. The token keeps others from writing, so it is random even with
 * an `ids` option.
 */
export function createOwner(): RunOwner {
  return { token: randomIds.next("owner"), hostname: hostname(), processId: pid };
}

export function createAlreadyResumedError({
  runId,
  pauseCount,
}: Pick<PausedRunRecord, "runId" | "pauseCount">): EspalierError {
  return new EspalierError({
    code: "already_resumed",
    message: `Cannot resume pause ${pauseCount} of ${runId}: it was already resumed, and approved calls run once. Use the handle of that run, or the paused run that it left.`,
    data: { runId, pauseCount },
  });
}
