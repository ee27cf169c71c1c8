import { useState } from "preact/hooks";

import { api } from "../data/api.ts";
import type { FollowedRun } from "../data/followed-run.ts";
import { meta } from "../data/viewer-meta.ts";
import { setServerTime } from "../data/page-clock.ts";
import { useLoaded } from "../data/use-loaded.ts";
import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { formatFullCount } from "../../src/read-model/amounts.ts";
import { answerDrafts, toDraftKey, type FailedAnswer } from "../questions/answer-drafts.ts";
import { QuestionsScreen } from "../questions/questions-screen.tsx";
import { useNews } from "../questions/questions-banner.tsx";
import { RunScreen } from "../run/run-screen.tsx";
import { RunsScreen } from "../runs/runs-screen.tsx";
import { Line } from "../text/shown-text.tsx";
import { Announcer, copy } from "./announcer.tsx";
import { focusQuestion } from "./focus.ts";
import { Help } from "./help.tsx";
import { useKeys } from "./keys.ts";
import { Link } from "./link.tsx";
import { Panel } from "./panel.tsx";
import { ProblemNotice } from "./problem-notice.tsx";
import { navigate, route, type Route } from "./route.ts";
import { isDark, toggleTheme } from "./theme.ts";
import { useTitle } from "./page-title.ts";

const EVERY_MS = 2_000;
const NO_QUESTIONS: readonly QuestionRow[] = [];

interface AppProps {
  readonly firstRun: FollowedRun | undefined;
}

export function App({ firstRun }: AppProps) {
  const server = useLoaded({ key: "meta", everyMs: 60_000 }, async (signal) => {
    meta.value = await api.meta(signal);
    setServerTime(meta.value.nowMs);
  });
  const inbox = useLoaded({ key: "questions", everyMs: EVERY_MS }, (signal) =>
    api.questions(signal),
  );
  const questions = inbox.value?.questions ?? NO_QUESTIONS;
  useNews(questions);
  const [hasHelp, setHasHelp] = useState(false);
  useKeys("app", {
    "?": () => setHasHelp(true),
    i: () => navigate({ screen: "questions" }),
    n: questions.length === 0 ? undefined : openFirstQuestion,
    t: toggleTheme,
    y: () => copy(location.href, "Link copied"),
    Escape: () => (route.value.screen === "runs" ? false : navigate({ screen: "runs" })),
  });
  useTitle(questions.length);
  // While the question is on screen, its card shows the problem.
  const lost = answerDrafts.failedAnswer.value;
  const isOpen =
    lost !== undefined && questions.some((open) => toDraftKey(open) === toDraftKey(lost.question));
  const rejected = isOpen ? undefined : lost;
  const lockedOut = [server.problem, inbox.problem].find((problem) => problem?.status === 401);
  return (
    <>
      <TopBar questions={questions.length} onHelp={() => setHasHelp(true)} />
      {lockedOut !== undefined ? (
        <main>
          <h1 class="read-aloud" tabIndex={-1}>
            espalier
          </h1>
          <ProblemNotice problem={lockedOut} />
        </main>
      ) : (
        <Panel name="screen">
          {rejected !== undefined && <FailedAnswerBanner failed={rejected} />}
          {/* A run has its own feed, and its own banner for a lost connection. */}
          {rejected === undefined &&
            inbox.value !== undefined &&
            inbox.problem !== undefined &&
            route.value.screen !== "run" && <ServerLost />}
          <Screen to={route.value} inbox={inbox} firstRun={firstRun} />
        </Panel>
      )}
      <Announcer />
      {hasHelp && <Help onClose={() => setHasHelp(false)} />}
    </>
  );
}

/**
 * Opens the inbox and moves the focus to its first question, so that a screen reader announces it.
 */
function openFirstQuestion(): void {
  navigate({ screen: "questions" });
  focusQuestion();
}

/** If two people answer, the second gets a notice, although the question is gone. */
function FailedAnswerBanner({ failed }: { readonly failed: FailedAnswer }) {
  const { toolName, agentPath } = failed.question;
  return (
    <div class="lost" role="alert">
      <span>
        <b>Your answer was rejected.</b> <Line text={`${agentPath} asks: ${toolName}`} />.{" "}
        <Line text={failed.problem.message} most={400} />
      </span>
      <button
        class="small"
        onClick={() => {
          answerDrafts.failedAnswer.value = undefined;
        }}
      >
        Close
      </button>
    </div>
  );
}

function ServerLost() {
  return (
    <div class="lost" role="alert">
      <span>
        <b>Connection lost.</b> The page shows the last known state and reconnects automatically.
      </span>
    </div>
  );
}

interface ScreenProps extends AppProps {
  readonly to: Route;
  readonly inbox: Parameters<typeof QuestionsScreen>[0]["inbox"];
}

function Screen({ to, inbox, firstRun }: ScreenProps) {
  switch (to.screen) {
    case "runs":
      return <RunsScreen q={to.q} />;
    case "questions":
      return <QuestionsScreen inbox={inbox} />;
    case "run":
      return <RunScreen route={to} firstRun={firstRun} />;
    case "unknown":
      return (
        <main>
          <div class="empty">
            <h1 tabIndex={-1}>Page not found</h1>
            <p>
              <Link to={{ screen: "runs" }}>All runs</Link>
            </p>
          </div>
        </main>
      );
  }
}

interface BarProps {
  readonly questions: number;
  readonly onHelp: () => void;
}

function TopBar({ questions, onHelp }: BarProps) {
  const { value: known } = meta;
  return (
    <nav class="top-bar" aria-label="Viewer">
      <Link to={{ screen: "runs" }} class="home">
        <Mark />
        espalier
      </Link>
      {known !== undefined && (
        <span class="store muted" title={`espalier ${known.version}`}>
          <Line text={known.store} />
        </span>
      )}
      {known?.content === false && <span class="badge">content off</span>}
      {known?.actions.length === 0 && <span class="badge">reads only</span>}
      <span class="spacer" />
      <Link to={{ screen: "questions" }} class={questions > 0 ? "inbox has-some" : "inbox"}>
        {questions === 0
          ? "Inbox"
          : `${formatFullCount(questions)} need${questions === 1 ? "s" : ""} you`}
      </Link>
      <button class="small" onClick={toggleTheme} title="Light or dark: t">
        {isDark() ? "Light" : "Dark"}
      </button>
      <button class="small" onClick={onHelp} aria-label="Keys" title="Keys: ?">
        ?
      </button>
    </nav>
  );
}

function Mark() {
  return (
    <svg class="mark-sign" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d="M8 15V2M8 12H2.5V9M8 12h5.5V9M8 7.5H4V5M8 7.5h4V5" class="drawn" />
    </svg>
  );
}
