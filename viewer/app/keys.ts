// Keys of the page. What is innermost is asked first; a field that is being written in keeps its keys.

import { useLayoutEffect, useRef } from "preact/hooks";

/** What a key does; false: nothing, and the next outer part of the page is asked. */
export type KeyMap = Readonly<Record<string, (() => unknown) | undefined>>;

/** Where a part of the page is: the innermost is asked first. */
const LEVELS = ["app", "screen", "panel", "form"] as const;
export type KeyLevel = (typeof LEVELS)[number];

interface KeyListener {
  readonly level: number;
  keys: KeyMap;
}

const listeners: KeyListener[] = [];

/** Keys of a part of the page, as long as it is shown. By the name of the key: `j`, `Enter`, `ArrowUp`. */
export function useKeys(level: KeyLevel, keys: KeyMap): void {
  const listener = useRef<KeyListener>({ level: LEVELS.indexOf(level), keys });
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

export function listenToKeys(): void {
  // Before fields and buttons: Enter that is held down must not go through several stages.
  document.addEventListener("keydown", stopHeldEnter, { capture: true });
  const typing = new TypingGuard();
  document.addEventListener("keydown", (event) => {
    if (typing.continues(event)) return;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTaken(event)) return;
    for (const { keys } of listeners.toReversed()) {
      const action = keys[event.key];
      if (action === undefined || action() === false) continue;
      event.preventDefault();
      return;
    }
  });
}

/** Prevents the repeats of Enter from pressing or submitting what the first one has opened. */
function stopHeldEnter(event: KeyboardEvent): void {
  if (!event.repeat || event.key !== "Enter") return;
  const isText = targetOf(event)?.matches("textarea") === true;
  if (!isText || event.ctrlKey || event.metaKey) event.preventDefault();
}

const TYPING_PAUSE_MS = 1_000;
/**
 * Recognises keys that were meant for a field that has gone. A field disappears while a user types
 * in it if its question is answered elsewhere; the rest of the text must not run shortcuts.
 */
class TypingGuard {
  #field: Element | undefined;
  #lastMs = 0;

  /** True for a key that continues a text whose field has left the page. */
  continues(event: KeyboardEvent): boolean {
    const target = targetOf(event);
    const { timeStamp } = event;
    if (target !== undefined && isField(target)) {
      this.#field = isLeaving(event) ? undefined : target;
      this.#lastMs = timeStamp;
      return false;
    }
    if (this.#field === undefined) return false;
    // A key outside of a field that is still there: the user has left the field.
    if (this.#field.isConnected || timeStamp - this.#lastMs >= TYPING_PAUSE_MS) {
      this.#field = undefined;
      return false;
    }
    if (!isTyped(event)) return false;
    this.#lastMs = timeStamp;
    // Enter and Space would press the button that has the focus by now.
    event.preventDefault();
    return true;
  }
}

/** True for a key that writes text; Enter also with Ctrl, since a field may be sent with both. */
function isTyped({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  return key === "Enter" || (key.length === 1 && !ctrlKey && !metaKey && !altKey);
}

/** True for a key with which a user leaves a field. */
function isLeaving({ key, isComposing, ctrlKey, metaKey }: KeyboardEvent): boolean {
  if (isComposing) return false;
  return key === "Escape" || key === "Tab" || (key === "Enter" && (ctrlKey || metaKey));
}

function targetOf(event: KeyboardEvent): Element | undefined {
  // Behind the borders of components that extensions of the browser add.
  const [target] = event.composedPath();
  return target instanceof Element ? target : undefined;
}

function isField(target: Element): boolean {
  const isEditable = target instanceof HTMLElement && target.isContentEditable;
  return isEditable || target.matches("input, textarea, select, [role=textbox]");
}

/** True for what the browser does with a key where it was pressed. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.isComposing || document.querySelector("dialog[open]") !== null) return true;
  const { key } = event;
  const target = targetOf(event);
  if (target === undefined) return false;
  if (isField(target)) return key !== "Escape";
  const isPressed = key === "Enter" || key === " ";
  return isPressed && target.closest("button, a, summary, [role=tab]") !== null;
}
