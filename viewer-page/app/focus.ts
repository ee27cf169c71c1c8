import { useLayoutEffect } from "preact/hooks";

/**
 * Moves the focus to the question that keys act on, or to the heading of the screen if none is
 * open. A screen reader announces both. Waits until the page is rendered.
 */
export function focusQuestion(): void {
  requestAnimationFrame(() => {
    const selectors = [".question.current", "main h1"];
    const elements = selectors.map((selector) => document.querySelector<HTMLElement>(selector));
    const element = elements.find((candidate) => candidate !== null);
    // A field of the question may already have the focus.
    if (element?.contains(document.activeElement) !== true) element?.focus();
  });
}

export function focusElement(element: HTMLElement | null): void {
  element?.focus();
}

/** A ref that focuses the element once it is rendered, unless the user has moved the focus. */
export function focusIfFree(element: HTMLElement | null): void {
  const { activeElement } = document;
  const isFree = activeElement === document.body || activeElement?.matches(":disabled") === true;
  if (isFree) element?.focus();
}

/**
 * Restores the focus after a render has removed or disabled the focused element, if that was within
 * an element that matches `owner`. `find` returns the element that gets the focus, if any.
 */
export function useLostFocus(owner: string, find: () => HTMLElement | null | undefined): void {
  const before = document.activeElement;
  const isOwn = before?.closest(owner) != null;
  useLayoutEffect(() => {
    if (before === null || !isOwn) return;
    const { activeElement } = document;
    const isRemoved = activeElement === document.body && !before.isConnected;
    const isDisabled = activeElement === before && before.matches(":disabled");
    if (isRemoved || isDisabled) find()?.focus();
  });
}

/**
 * Restores the focus when the focused element is removed: its nearest focusable ancestor gets the
 * focus, or the heading of the screen. Called once, when the page starts.
 */
export function keepFocus(): void {
  /** The focused element and its ancestors. */
  let path: readonly HTMLElement[] = [];
  document.addEventListener("focusin", (event) => {
    path = event.composedPath().filter((target) => target instanceof HTMLElement);
  });
  document.addEventListener("focusout", () => {
    // A click outside all elements removes the focus on purpose.
    queueMicrotask(() => {
      if (document.activeElement === document.body && path[0]?.isConnected === true) path = [];
    });
  });
  new MutationObserver(() => {
    const [element] = path;
    if (element === undefined || element.isConnected) return;
    if (document.activeElement !== document.body) return;
    const above = path.find(
      (ancestor) => ancestor.isConnected && ancestor.hasAttribute("tabindex"),
    );
    (above ?? document.querySelector<HTMLElement>("main h1"))?.focus({ preventScroll: true });
  }).observe(document.body, { subtree: true, childList: true });
}
