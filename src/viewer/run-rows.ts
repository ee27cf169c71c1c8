// Builds the viewer's payloads (list row, snapshot, patch, log) from store metadata and the folded
// journal.

import { defined } from "../kernel/json.ts";
import type { StoredRun } from "../store/run-store.ts";
import {
  factsOnceAnswered,
  factsOnceRefused,
  runHead,
  runListing,
  timeOf,
} from "../view/run-row.ts";
import type {
  QuestionRow,
  RunOverview,
  RunPatch,
  RunRow,
  RunSnapshot,
  LogEntry,
  LogPage,
} from "../view/viewer-data.ts";
import type { HeldRun } from "./held-run.ts";
import { onlooker } from "./run-standing.ts";
import type { ShownContent } from "./shown-content.ts";
import type { EspalierEvent } from "../protocol/event.ts";

/** Folded facts of a run, valid until its journal or its mailbox changes. */
export type LearntRun = ReturnType<typeof learntOf>;

const MOST_TITLE_CHARACTERS = 200;
/** Role at the beginning of a title that espalier wrote. */
const ROLE = /^[A-Za-z][A-Za-z0-9_-]{0,63}(?=: )/;

/** Returns the folded facts of a run: questions, title and summary. */
export function learntOf(run: HeldRun, nowMs: number) {
  const snapshot = run.fold.snapshot();
  const questions = openOf(run, snapshot.questions);
  const answered = factsOnceAnswered(snapshot.run, questions.length === 0);
  const facts = factsOnceRefused(answered, run.mailed.refusal);
  return { facts, questions, title: chooseTitle(run), stored: run.stored, atMs: nowMs };
}

/** Returns a row of a list, without facts that are not known yet. */
export function rowOf(
  stored: StoredRun,
  learnt: LearntRun | undefined,
  { content, nowMs }: { readonly content: ShownContent; readonly nowMs: number },
): RunRow {
  const title = learnt?.title ?? (content.isWhole ? stored.title : roleIn(stored.title));
  const listing = runListing({ ...stored, title }, learnt?.facts, onlooker(nowMs));
  if (learnt === undefined) return listing;
  const { facts, questions } = learnt;
  const { traceId: _trace, lastAtMs: _last, unpricedModels: _models, ...others } = facts;
  const { refusalCount: _refusals, toolErrorCount: _errors, ...summary } = others;
  return { ...summary, ...listing, ...timeOf(facts, listing, nowMs), questions };
}

export function runSnapshotOf(run: HeldRun, nowMs: number): RunSnapshot {
  const snapshot = run.fold.snapshot();
  const questions = openOf(run, snapshot.questions);
  const head = buildRunHead(run, factsOnceAnswered(snapshot.run, questions.length === 0), nowMs);
  return { ...snapshot, record: run.record, run: head, questions };
}

/** Returns the changes since a record. `isMailNew` is true if the mailbox has changed too. */
export function patchOf(
  run: HeldRun,
  { since, isMailNew }: { readonly since: number; readonly isMailNew: boolean },
  nowMs: number,
): RunPatch {
  const patch = run.fold.patchSince(since);
  const asked = patch.questions ?? (isMailNew ? run.fold.snapshot().questions : undefined);
  const questions = asked && openOf(run, asked);
  const { answered } = run.mailed;
  const isAnswered = run.fold.questions.every(({ questionId }) => answered.has(questionId));
  const head = buildRunHead(run, factsOnceAnswered(patch.run, isAnswered), nowMs);
  return { ...patch, record: run.record, run: head, ...defined({ questions }) };
}

/** Returns a key of the owner, which can change without a new journal record. */
export function leaderText(run: HeldRun, nowMs: number): string {
  const { status, owner: leader } = runListing(run.stored, undefined, onlooker(nowMs));
  return JSON.stringify([status, leader]);
}

/** Returns a key of the mailbox, which can change without a new journal record. */
export function mailText({ mailed: { answered, vain, refusal } }: HeldRun): string {
  return JSON.stringify([[...answered], [...vain], refusal]);
}

function buildRunHead(run: HeldRun, facts: RunOverview, nowMs: number) {
  const all = factsOnceRefused(facts, run.mailed.refusal);
  return runHead({ ...run.stored, title: chooseTitle(run) }, all, onlooker(nowMs));
}

/**
 * Returns the title. With hidden or redacted content the title is rebuilt, since the store cut it
 * before the redaction.
 */
function chooseTitle({ content, fold, stored }: HeldRun): string {
  if (content.isWhole) return stored.title;
  const { root } = fold;
  if (root === undefined || !content.isShown) return roleIn(stored.title);
  return `${root.role}: ${root.task}`.slice(0, MOST_TITLE_CHARACTERS);
}

/** Returns the part of a title that is not content. */
function roleIn(title: string): string {
  return ROLE.exec(title)?.[0] ?? "run";
}

/** Returns the questions without an answer, each with its latest rejected answer. */
function openOf({ mailed }: HeldRun, questions: readonly QuestionRow[]): readonly QuestionRow[] {
  const { answered, vain } = mailed;
  return questions
    .filter(({ questionId }) => !answered.has(questionId))
    .map((question) => ({
      ...question,
      ...defined({ rejectedAnswer: vain.get(question.questionId) }),
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
const MOST_ENTRIES = 1_000;

/**
 * Returns a page of the log. A page ends with a whole record, so the limit can be exceeded
 * slightly. Rejects like `HeldRun.look`.
 */
export async function logOf({ recorded, content }: HeldRun, query: LogQuery): Promise<LogPage> {
  const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MOST_ENTRIES);
  const entries: LogEntry[] = [];
  for await (const { event, line } of recorded.eventsAfter(query.after)) {
    const next = entries.at(-1)?.record ?? query.after;
    if (entries.length >= limit && line > next) return { entries, next };
    if (isWanted(event, query)) entries.push({ record: line, event: { ...content.event(event) } });
  }
  return { entries };
}

function isWanted(event: EspalierEvent, { agentId, type }: LogQuery): boolean {
  return (
    (agentId === undefined || event.agentId === agentId) &&
    (type === undefined || event.type === type)
  );
}
