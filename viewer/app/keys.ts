// Keys of the page. What is innermost is asked first; a field that is being written in keeps its keys.

import { useLayoutEffect, useRef } from "preact/hooks";

/** What a key does; false: nothing, and the next outer part of the page is asked. */
export type KeyMap = Readonly<Record<string, (() => unknown) | undefined>>;

/** Where a part of the page is: the innermost is asked first. */
const LEVELS = ["app", "screen", "panel", "form"] as const;
export type KeyLevel = (typeof LEVELS)[number];

interface Listener {
  readonly level: number;
  keys: KeyMap;
}

/** Those within others last. */
const listeners: Listener[] = [];

/** Keys of a part of the page, as long as it is shown. By the name of the key: `j`, `Enter`, `ArrowUp`. */
export function useKeys(level: KeyLevel, keys: KeyMap): void {
  const listener = useRef<Listener>({ level: LEVELS.indexOf(level), keys });
  listener.current.keys = keys;
  // With what it belongs to, not a frame later: a key is meant for what is seen.
  useLayoutEffect(() => {
    const { current } = listener;
    const at = listeners.findLastIndex((other) => other.level <= current.level);
    listeners.splice(at + 1, 0, current);
    return () => {
      listeners.splice(listeners.indexOf(current), 1);
    };
  }, []);
}

/** Called once, when the page begins. */
export function listenToKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTaken(event.key, event.target)) return;
    for (const { keys } of listeners.toReversed()) {
      const action = keys[event.key];
      if (action === undefined || action() === false) continue;
      event.preventDefault();
      return;
    }
  });
}

/** True for what the browser does with a key where it was pressed. */
function isTaken(key: string, target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open]") !== null) return true;
  if (!(target instanceof Element)) return false;
  if (target.matches("input, textarea, select")) return key !== "Escape";
  const isPressed = key === "Enter" || key === " ";
  return isPressed && target.closest("button, a, summary, [role=tab]") !== null;
}
