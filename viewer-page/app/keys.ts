// Keyboard shortcuts. The innermost part of the page handles a key first. Text fields keep their
// keys.

import { useLayoutEffect, useRef } from "preact/hooks";

/** Handlers by key. A handler that returns false passes the key to the next outer part. */
export type KeyMap = Readonly<Record<string, (() => unknown) | undefined>>;

/** Nesting levels of the page. The innermost handles a key first. */
const LEVELS = ["app", "screen", "panel", "form"] as const;
export type KeyLevel = (typeof LEVELS)[number];

interface KeyListener {
  readonly level: number;
  keys: KeyMap;
}

const listeners: KeyListener[] = [];

/**
 * Registers the keys of a part of the page while it is rendered. Names are those of
 * `KeyboardEvent.key`: `j`, `Enter`, `ArrowUp`.
 */
export function useKeys(level: KeyLevel, keys: KeyMap): void {
  const listener = useRef<KeyListener>({ level: LEVELS.indexOf(level), keys });
  listener.current.keys = keys;
  // In a layout effect, so that the keys match the screen without a frame of delay.
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
  // In the capture phase, so that a held Enter does not pass through several stages.
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

/** Prevents a held Enter from activating the controls that its first press has opened. */
function stopHeldEnter(event: KeyboardEvent): void {
  if (!event.repeat || event.key !== "Enter") return;
  const isText = findTarget(event)?.matches("textarea") === true;
  if (!isText || event.ctrlKey || event.metaKey) event.preventDefault();
}

const TYPING_PAUSE_MS = 1_000;
/**
 * Recognises keys that were meant for a removed field. A field disappears while a user types if its
 * question is answered elsewhere. The rest of the text must not run shortcuts.
 */
class TypingGuard {
  #field: Element | undefined;
  #lastMs = 0;

  /** Returns true for a key that continues the text of a removed field. */
  continues(event: KeyboardEvent): boolean {
    const target = findTarget(event);
    const { timeStamp } = event;
    if (target !== undefined && isField(target)) {
      this.#field = isLeaving(event) ? undefined : target;
      this.#lastMs = timeStamp;
      return false;
    }
    if (this.#field === undefined) return false;
    // A key outside of a field that still exists: the user has left the field.
    if (this.#field.isConnected || timeStamp - this.#lastMs >= TYPING_PAUSE_MS) {
      this.#field = undefined;
      return false;
    }
    if (!isTyped(event)) return false;
    this.#lastMs = timeStamp;
    // Enter and Space would press the button that now has the focus.
    event.preventDefault();
    return true;
  }
}

/** Returns true for a key that writes text. Includes Ctrl Enter, which also submits a field. */
function isTyped({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  return key === "Enter" || (key.length === 1 && !ctrlKey && !metaKey && !altKey);
}

/** Returns true for a key with which a user leaves a field. */
function isLeaving({ key, isComposing, ctrlKey, metaKey }: KeyboardEvent): boolean {
  if (isComposing) return false;
  return key === "Escape" || key === "Tab" || (key === "Enter" && (ctrlKey || metaKey));
}

function findTarget(event: KeyboardEvent): Element | undefined {
  // The target inside shadow roots, which browser extensions add.
  const [target] = event.composedPath();
  return target instanceof Element ? target : undefined;
}

function isField(target: Element): boolean {
  const isEditable = target instanceof HTMLElement && target.isContentEditable;
  return isEditable || target.matches("input, textarea, select, [role=textbox]");
}

/** Returns true for a key that the browser handles at its target. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.isComposing || document.querySelector("dialog[open]") !== null) return true;
  const { key } = event;
  const target = findTarget(event);
  if (target === undefined) return false;
  if (isField(target)) return key !== "Escape";
  const isPressed = key === "Enter" || key === " ";
  return isPressed && target.closest("button, a, summary, [role=tab]") !== null;
}
