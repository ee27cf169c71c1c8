// All runs of the store, in three groups: needs a person, active, done.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { RunPage, RunRow } from "../../src/read-model/viewer-data.ts";
import { announce } from "../app/announcer.tsx";
import { useKeys } from "../app/keys.ts";
import { Pending } from "../app/problem-notice.tsx";
import { navigate, getLastVisited, recordVisit, replaceRoute } from "../app/route.ts";
import { api, toProblem, type Problem } from "../data/api.ts";
import { useLoaded } from "../data/use-loaded.ts";
import { formatFullCount, formatQuantity } from "../../src/read-model/amounts.ts";
import { focusElement, useLostFocus } from "../app/focus.ts";
import { groupRuns, type RunGroup } from "../../src/read-model/run-row.ts";
import { formatCommand } from "../text/command.ts";
import { Line } from "../text/shown-text.tsx";
import { RunLine } from "./run-line.tsx";

const EVERY_MS = 2_000;
const SHOWN = 60;

const TITLES: Readonly<Record<RunGroup, string>> = {
  attention: "To do",
  working: "Working",
  done: "Done",
};

export function RunsScreen({ q = "" }: { readonly q?: string | undefined }) {
  const loaded = useLoaded({ key: q, everyMs: EVERY_MS }, (signal) => api.runs({ q }, signal));
  const [older, setOlder] = useState<RunPage | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  useEffect(() => {
    setOlder(undefined);
    setProblem(undefined);
  }, [q]);
  const first = loaded.value;
  const runs = [...(first?.runs ?? []), ...(older?.runs ?? [])];
  const next = older === undefined ? first?.next : older.next;
  useEffect(() => {
    if (q !== "" && first !== undefined)
      announce(`${formatQuantity(runs.length, "run")} in the list`);
  }, [q, first === undefined, runs.length]);
  const loadMore = async (): Promise<void> => {
    try {
      const page = await api.runs({ q, before: next }, new AbortController().signal);
      setOlder({ runs: [...(older?.runs ?? []), ...page.runs], next: page.next });
      setProblem(undefined);
    } catch (error) {
      setProblem(toProblem(error));
    }
  };
  return (
    <main class="runs-screen">
      <h1 class="read-aloud" tabIndex={-1}>
        Runs
      </h1>
      <Search q={q} />
      {first === undefined && <Pending problem={loaded.problem} rows={8} />}
      {first !== undefined && runs.length === 0 && <NoRuns q={q} />}
      {first !== undefined && runs.length > 0 && <Groups runs={removeDuplicates(runs)} />}
      {next !== undefined && (
        <div>
          {problem !== undefined && (
            <p class="muted" role="alert">
              Older runs could not be loaded: <Line text={problem.message} />
            </p>
          )}
          <button class="more" onClick={() => void loadMore()}>
            {problem === undefined ? "Older runs" : "Try again"}
          </button>
        </div>
      )}
      {first?.isCut && (
        <p class="muted">
          Only the newest active and paused runs are listed. Search does not find the others: open
          them by their address.
        </p>
      )}
      {first?.forgotten !== undefined && (
        <p class="muted">
          {formatQuantity(first.forgotten, "older run")} evicted: this store is in memory. A viewer
          with a persistent store keeps all runs.
        </p>
      )}
    </main>
  );
}

/** Removes duplicates: a run that moved between two pages appears twice. */
function removeDuplicates(runs: readonly RunRow[]): readonly RunRow[] {
  return [...new Map(runs.toReversed().map((run) => [run.runId, run])).values()].toReversed();
}

/**
 * Manages the cursor of the list. The link of its run has the focus, and gets it back after
 * changes.
 */
function useRunCursor(list: RefObject<HTMLDivElement | null>) {
  const [cursor, setOwnCursor] = useState(getLastVisited);
  // A list that is reloaded, for another search, keeps the same run.
  const setCursor = (runId: string): void => {
    setOwnCursor(runId);
    recordVisit(runId);
  };
  const findLink = (runId: string) =>
    list.current?.querySelector<HTMLElement>(`[data-run="${CSS.escape(runId)}"] .run-link`);
  useLostFocus(".run-group", () => findLink(cursor));
  useEffect(() => {
    // The screen has just been opened: only the heading has the focus, or no element.
    if (document.activeElement?.matches("body, h1") === true) findLink(cursor)?.focus();
  }, []);
  return { cursor, setCursor, linkTo: findLink };
}

function Groups({ runs }: { readonly runs: readonly RunRow[] }) {
  const [opened, setOpened] = useState<ReadonlySet<RunGroup>>(new Set());
  const list = useRef<HTMLDivElement>(null);
  const { cursor, setCursor, linkTo } = useRunCursor(list);
  const shownGroups = groupRuns(runs).map(([group, all]) => ({
    group,
    all,
    shown: opened.has(group) ? all : all.slice(0, SHOWN),
  }));
  const lines = shownGroups.flatMap(({ shown }) => shown);
  const at = lines.findIndex(({ runId }) => runId === cursor);
  const move = (by: number): void => {
    const line = lines[Math.max(0, Math.min(lines.length - 1, at + by))];
    if (line === undefined) return;
    setCursor(line.runId);
    // The focus also scrolls the line into view.
    linkTo(line.runId)?.focus();
  };
  useKeys("screen", {
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    Enter: at === -1 ? undefined : () => navigate({ screen: "run", runId: cursor }),
  });
  return (
    <div
      ref={list}
      onFocusIn={({ target }) => {
        const line = target instanceof Element ? target.closest("[data-run]") : null;
        if (line !== null) setCursor(line.getAttribute("data-run") ?? "");
      }}
    >
      {shownGroups.map(
        ({ group, all, shown }) =>
          all.length > 0 && (
            <section key={group} class={`run-group group-${group}`}>
              <h2>
                {TITLES[group]} <span class="count">{formatFullCount(all.length)}</span>
              </h2>
              <ul>
                {shown.map((run) => (
                  <RunLine key={run.runId} run={run} isCursor={run.runId === cursor} />
                ))}
              </ul>
              {shown.length < all.length && (
                <button
                  class="more"
                  onClick={() => {
                    // The first of the lines that appear gets the focus of the button.
                    setCursor(all[shown.length]?.runId ?? "");
                    setOpened(new Set(opened).add(group));
                  }}
                >
                  {formatQuantity(all.length - shown.length, "more run")}: show
                </button>
              )}
            </section>
          ),
      )}
    </div>
  );
}

function Search({ q }: { readonly q: string }) {
  const [isOpen, setIsOpen] = useState(q !== "");
  const search = useRef<HTMLParagraphElement>(null);
  useLostFocus(".search", () => search.current?.querySelector("button"));
  const close = (): void => {
    replaceRoute({ screen: "runs" });
    setIsOpen(false);
  };
  useKeys("screen", {
    "/": () => {
      setIsOpen(true);
      search.current?.querySelector("input")?.focus();
    },
    Escape: isOpen ? close : undefined,
  });
  if (!isOpen)
    return (
      <p class="search" ref={search}>
        <button onClick={() => setIsOpen(true)}>
          Search <kbd>/</kbd>
        </button>
      </p>
    );
  return (
    <p class="search" ref={search}>
      <label for="runs-search" class="read-aloud">
        Search runs
      </label>
      <input
        id="runs-search"
        ref={focusElement}
        type="search"
        value={q}
        placeholder="Title or id"
        autocomplete="off"
        onInput={(event) => replaceRoute({ screen: "runs", q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Enter" || event.key === "ArrowDown") {
            event.preventDefault();
            document.querySelector<HTMLElement>(".run-link")?.focus();
          }
          if (event.key === "Escape") close();
        }}
      />
    </p>
  );
}

function NoRuns({ q }: { readonly q: string }) {
  if (q !== "")
    return (
      <div class="empty">
        <h2>No run matches</h2>
        <p>
          No title or id contains these words.{" "}
          <button
            onClick={() => {
              document.getElementById("runs-search")?.focus();
              replaceRoute({ screen: "runs" });
            }}
          >
            Show all runs
          </button>
        </p>
      </div>
    );
  return (
    <div class="empty">
      <h2>No runs yet</h2>
      <p>Runs of this store appear here automatically. These commands start one:</p>
      <pre class="command">{formatCommand("demo")}</pre>
      <pre class="command">{formatCommand('run lead.md "What is this project?"')}</pre>
    </div>
  );
}
