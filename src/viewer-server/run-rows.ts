// Builds the viewer's payloads (list row, snapshot, patch, log) from store metadata and the folded
// journal.

import { omitUndefined } from "../kernel/json.ts";
import type { StoredRun } from "../store/run-store.ts";
import {
  updateMailedFacts,
  createRunHead,
  createRunListing,
  computeRunTime,
} from "../read-model/run-row.ts";
import type {
  QuestionRow,
  RunOverview,
  RunPatch,
  RunRow,
  RunSnapshot,
  LogEntry,
  LogPage,
} from "../read-model/viewer-data.ts";
import type { CachedRun } from "./run-fold-cache.ts";
import { createViewpoint } from "./viewpoint.ts";
import type { ShownContent } from "./shown-content.ts";
import type { EspalierEvent } from "../protocol/event.ts";

/** Folded facts of a run, valid until its journal or its mailbox changes. */
export type LearntRun = ReturnType<typeof collectRunFacts>;

const MAX_TITLE_CHARACTERS = 200;
/** Role at the beginning of a title that espalier wrote. */
const ROLE = /^[A-Za-z][A-Za-z0-9_-]{0,63}(?=: )/;

/** Returns the folded facts of a run: questions, title and summary. */
export function collectRunFacts(run: CachedRun, nowMs: number) {
  const snapshot = run.fold.snapshot();
  const questions = selectOpenQuestions(run, snapshot.questions);
  const facts = updateMailedFacts(snapshot.run, questions.length === 0, run.mailed.refusal);
  return { facts, questions, title: chooseTitle(run), stored: run.stored, atMs: nowMs };
}

/** Returns a row of a list, without facts that are not known yet. */
export function buildRunRow(
  stored: StoredRun,
  learnt: LearntRun | undefined,
  { content, nowMs }: { readonly content: ShownContent; readonly nowMs: number },
): RunRow {
  const title = learnt?.title ?? (content.isWhole ? stored.title : readTitleRole(stored.title));
  const listing = createRunListing({ ...stored, title }, learnt?.facts, createViewpoint(nowMs));
  if (learnt === undefined) return listing;
  const { facts, questions } = learnt;
  const { traceId: _trace, lastAtMs: _last, unpricedModels: _models, ...others } = facts;
  const { refusalCount: _refusals, toolErrorCount: _errors, ...summary } = others;
  return { ...summary, ...listing, ...computeRunTime(facts, listing, nowMs), questions };
}

export function buildRunSnapshot(run: CachedRun, nowMs: number): RunSnapshot {
  const snapshot = run.fold.snapshot();
  const questions = selectOpenQuestions(run, snapshot.questions);
  const head = buildRunHead(run, snapshot.run, questions.length === 0, nowMs);
  return { ...snapshot, record: run.record, run: head, questions };
}

/** Returns the changes since a record. `isMailNew` is true if the mailbox has changed too. */
export function buildRunPatch(
  run: CachedRun,
  { since, isMailNew }: { readonly since: number; readonly isMailNew: boolean },
  nowMs: number,
): RunPatch {
  const patch = run.fold.patchSince(since);
  const shownQuestions = patch.questions ?? (isMailNew ? run.fold.snapshot().questions : undefined);
  const questions = shownQuestions && selectOpenQuestions(run, shownQuestions);
  const { answered } = run.mailed;
  const isAnswered = run.fold.questions.every(({ questionId }) => answered.has(questionId));
  const head = buildRunHead(run, patch.run, isAnswered, nowMs);
  return { ...patch, record: run.record, run: head, ...omitUndefined({ questions }) };
}

/** Returns a key of the owner, which can change without a new journal record. */
export function buildOwnerKey(run: CachedRun, nowMs: number): string {
  const { status, owner: leader } = createRunListing(run.stored, undefined, createViewpoint(nowMs));
  return JSON.stringify([status, leader]);
}

/** Returns a key of the mailbox, which can change without a new journal record. */
export function buildMailboxKey({ mailed: { answered, rejected, refusal } }: CachedRun): string {
  return JSON.stringify([[...answered], [...rejected], refusal]);
}

function buildRunHead(run: CachedRun, facts: RunOverview, isAnswered: boolean, nowMs: number) {
  const all = updateMailedFacts(facts, isAnswered, run.mailed.refusal);
  return createRunHead({ ...run.stored, title: chooseTitle(run) }, all, createViewpoint(nowMs));
}

/**
 * Returns the title. With hidden or redacted content the title is rebuilt, since the store cut it
 * before the redaction.
 */
function chooseTitle({ content, fold, stored }: CachedRun): string {
  if (content.isWhole) return stored.title;
  const { root } = fold;
  if (root === undefined || !content.isShown) return readTitleRole(stored.title);
  return `${root.role}: ${root.task}`.slice(0, MAX_TITLE_CHARACTERS);
}

/** Returns the part of a title that is not content. */
function readTitleRole(title: string): string {
  return ROLE.exec(title)?.[0] ?? "run";
}

/** Returns the questions without an answer, each with its latest rejected answer. */
function selectOpenQuestions(
  { mailed }: CachedRun,
  questions: readonly QuestionRow[],
): readonly QuestionRow[] {
  const { answered, rejected } = mailed;
  return questions
    .filter(({ questionId }) => !answered.has(questionId))
    .map((question) => ({
      ...question,
      ...omitUndefined({ rejectedAnswer: rejected.get(question.questionId) }),
    }));
}

/** Filter of a log. */
export interface LogQuery {
  /** Number of the record after which the log begins. */
  readonly after: number;
  readonly agentId?: string;
  readonly type?: string;
  readonly limit?: number;
}

const DEFAULT_LIMIT = 200;
const MAX_ENTRIES = 1_000;

/**
 * Returns a page of the log. A page ends with a whole record, so the limit can be exceeded
 * slightly. Rejects like `CachedRun.look`.
 */
export async function readLogPage(
  { recorded, content }: CachedRun,
  query: LogQuery,
): Promise<LogPage> {
  const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MAX_ENTRIES);
  const entries: LogEntry[] = [];
  for await (const { event, line } of recorded.eventsAfter(query.after)) {
    const next = entries.at(-1)?.record ?? query.after;
    if (entries.length >= limit && line > next) return { entries, next };
    if (isWanted(event, query))
      entries.push({ record: line, event: { ...content.showEvent(event) } });
  }
  return { entries };
}

function isWanted(event: EspalierEvent, { agentId, type }: LogQuery): boolean {
  return (
    (agentId === undefined || event.agentId === agentId) &&
    (type === undefined || event.type === type)
  );
}
