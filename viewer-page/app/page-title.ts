import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { toLine } from "../text/shown-text.tsx";
import { announce } from "./announcer.tsx";
import { route, type Route } from "./route.ts";

const SCREENS: Readonly<Record<Route["screen"], string>> = {
  runs: "Runs",
  questions: "Inbox",
  run: "Run",
  unknown: "Not found",
};
const MAX_CHARACTERS = 80;

const openedRun = signal({ runId: "", title: "" });

export function useRunTitle(runId: string, title: string): void {
  useEffect(() => {
    openedRun.value = { runId, title };
  }, [runId, title]);
}

/** Sets the title of the tab, which the browser also stores in its history. */
export function useTitle(questions: number): void {
  const { screen } = route.value;
  const place = nameScreen(route.value);
  useEffect(() => {
    document.title = `${questions > 0 ? `(${questions}) ` : ""}${place} · espalier`;
  }, [questions, place]);
  const before = useRef(screen);
  useEffect(() => {
    if (before.current !== screen) announce(screen === "run" ? "Run" : screen);
    before.current = screen;
  }, [screen]);
}

function nameScreen(to: Route): string {
  if (to.screen !== "run") return SCREENS[to.screen];
  const { runId, title } = openedRun.value;
  const name = runId === to.runId && title !== "" ? title : `run ${to.runId}`;
  return toLine(name.replaceAll(/\s+/g, " "), MAX_CHARACTERS);
}
