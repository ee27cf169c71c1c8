import type { Problem } from "../data/api.ts";
import { Code, Line } from "../text/shown-text.tsx";
import { formatCommand } from "../text/command.ts";
import { Link } from "./link.tsx";

interface Advice {
  readonly title: string;
  readonly advice?: string;
  readonly command?: string;
}

const ADVICE: Readonly<Record<string, Advice>> = {
  unknown_run: {
    title: "Run not found",
    advice:
      "The store of this viewer has no run of this id. The run was removed, or is in another store.",
  },
  unknown_agent: { title: "Agent not found", advice: "This run has no agent of this id." },
  unknown_step: { title: "Step not found", advice: "This agent has no step of this number." },
  content_off: {
    title: "Content is hidden",
    advice:
      "This viewer was started without content. Prompts, calls and results stay in the store.",
  },
  store_failed: {
    title: "The store is busy",
    advice: "Another process is writing to the store. This page retries automatically.",
  },
  unsupported_version: {
    title: "Written by another version",
    advice:
      "The journal of this run was written by another version of espalier, most likely a newer one. Update this one to read it.",
    command: "npm install espalier@latest",
  },
  invalid_journal: {
    title: "The journal is damaged",
    advice: "A record of this run cannot be read. The server reports:",
  },
  unauthorized: {
    title: "This page has no valid token",
    advice:
      "The server was restarted with another token, or the address was copied without its token. Open the address that the server printed. This command prints the address of `espalier view`:",
    command: formatCommand("view --url"),
  },
  unreachable: {
    title: "The server does not answer",
    advice: "This page retries automatically. If the server was stopped, start it again:",
    command: formatCommand("view"),
  },
};

interface PendingProps extends Omit<NoticeProps, "problem"> {
  readonly problem: Problem | undefined;
  readonly rows: number;
}

/** Placeholder for content: skeleton rows while it loads, or the problem with loading. */
export function Pending({ problem, rows, onRetry }: PendingProps) {
  if (problem !== undefined) return <ProblemNotice problem={problem} onRetry={onRetry} />;
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_none, index) => (
        <div key={index} class="bone" />
      ))}
    </div>
  );
}

interface NoticeProps {
  readonly problem: Problem;
  /** Tries again. Absent if that cannot help. */
  readonly onRetry?: (() => void) | undefined;
}

export function ProblemNotice({ problem, onRetry }: NoticeProps) {
  const { title, advice, command } = findAdvice(problem);
  return (
    <div class="empty" role="alert">
      <h2>{title}</h2>
      {advice !== undefined && <p>{advice}</p>}
      {command !== undefined && <pre class="command">{command}</pre>}
      <p class="detail">
        <Code text={problem.code} /> <Line text={problem.message} />
      </p>
      <p class="actions">
        {onRetry !== undefined && <button onClick={onRetry}>Try again</button>}
        <Link to={{ screen: "runs" }}>All runs</Link>
      </p>
    </div>
  );
}

function findAdvice({ code, status }: Problem): Advice {
  const known = ADVICE[code];
  if (known !== undefined) return known;
  if (status === 401) return ADVICE["unauthorized"] ?? { title: code };
  return { title: status === 404 ? "Not found" : "This could not be displayed" };
}
