// The block of lines with the questions that must be answered before a run can continue. Pure.

import { QUESTION } from "./activity-text.ts";
import { formatDuration } from "../read-model/amounts.ts";
import type { Question } from "../index.ts";
import { formatTable, type Column } from "./table.ts";
import { fit, formatShortLine, type Paint } from "./terminal-text.ts";

/** Parts of a question as short, cleaned texts. */
export interface QuestionText extends Pick<Question, "agentPath" | "toolName" | "reason"> {
  readonly arguments: string;
}

const LONGEST_ARGUMENTS = 40;
const LONGEST_REASON = 160;

/** Cache of question texts. A live view shows them in every frame. */
const texts = new WeakMap<object, QuestionText>();

export function formatQuestion(
  question: Pick<Question, "agentPath" | "toolName" | "arguments" | "reason">,
): QuestionText {
  const known = texts.get(question);
  if (known !== undefined) return known;
  const text = {
    agentPath: formatShortLine(question.agentPath),
    toolName: formatShortLine(question.toolName),
    arguments: formatShortLine(JSON.stringify(question.arguments), LONGEST_ARGUMENTS),
    reason: formatShortLine(question.reason, LONGEST_REASON),
  };
  texts.set(question, text);
  return text;
}

const LATEST_DATE_MS = 8_640_000_000_000_000;

/**
 * Returns a title line and one line for each question. If `height` is too small, the last line has
 * the number of the others.
 */
export function formatQuestionTable(
  questions: readonly Question[],
  options: { readonly width: number; readonly height?: number; readonly time: TimeColumn },
  paint: Paint,
): readonly string[] {
  const { width, height = Infinity, time } = options;
  if (questions.length === 0 || height < 1) return [];
  const room = Math.max(0, height - 1);
  const shown = questions.length <= room ? questions : questions.slice(0, Math.max(0, room - 1));
  const { icon, style } = QUESTION;
  const columns: readonly Column<Row>[] = [
    {
      title: `input required (${questions.length})`,
      cell: ({ agentPath }) => ({ text: `${icon} ${agentPath}`, style }),
      minWidth: 14,
    },
    { title: "tool", cell: ({ toolName }) => toolName, minWidth: 10 },
    { title: time.title, cell: (row) => row.time, align: "right", rank: 3 },
    { title: "arguments", cell: (row) => row.arguments, minWidth: 16, rank: 1 },
    { title: "reason", cell: ({ reason }) => reason, minWidth: 16, rank: 2 },
  ];
  const hidden = questions.length - shown.length;
  const more = hidden === 0 || room === 0 ? [] : [paint("dim", fit(`… ${hidden} more`, width))];
  const rows = shown.map((question): Row => ({
    ...formatQuestion(question),
    time: time.text(question),
  }));
  return [...formatTable(columns, rows, width, paint), ...more];
}

interface Row extends QuestionText {
  readonly time: string;
}

export interface TimeColumn {
  readonly title: string;
  readonly text: (question: Question) => string;
}

/** Returns the column with the time since the question, or the time left until its deadline. */
export function createWaitColumn(nowMs: number): TimeColumn {
  return {
    title: "waits",
    text: ({ askedAtMs, deadlineAtMs }) =>
      deadlineAtMs === null
        ? formatDuration(Math.max(0, nowMs - askedAtMs))
        : `${formatDuration(Math.max(0, deadlineAtMs - nowMs))} left`,
  };
}

/** Column with the deadline. */
export const DEADLINES: TimeColumn = {
  title: "answer by",
  text: ({ deadlineAtMs }) => {
    const isSet = deadlineAtMs !== null && deadlineAtMs <= LATEST_DATE_MS;
    return isSet ? new Date(deadlineAtMs).toISOString() : "any time";
  },
};
