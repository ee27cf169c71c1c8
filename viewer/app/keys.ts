// Keys of the page. Whoever is shown last is asked first; a field that is being written in keeps its keys.

import { useEffect, useRef } from "preact/hooks";

/** What a key does; false: nothing, and whoever was shown before is asked. */
export type KeyMap = Readonly<Record<string, (() => unknown) | undefined>>;

const listeners: { readonly current: KeyMap }[] = [];

/** Keys of a part of the page, as long as it is shown. By the name of the key: `j`, `Enter`, `ArrowUp`. */
export function useKeys(keys: KeyMap): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    listeners.push(latest);
    return () => {
      listeners.splice(listeners.indexOf(latest), 1);
    };
  }, []);
}

/** Called once, when the page begins. */
export function listenToKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTaken(event.key, event.target)) return;
    for (const { current } of listeners.toReversed()) {
      const action = current[event.key];
      if (action === undefined || action() === false) continue;
      event.preventDefault();
      return;
    }
  });
}

/** True for what the browser does with a key where it was pressed. */
function isTaken(key: string, target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  if (target.matches("input, textarea, select")) return key !== "Escape";
  const isPressed = key === "Enter" || key === " ";
  return isPressed && target.closest("button, a, summary, [role=tab]") !== null;
}
