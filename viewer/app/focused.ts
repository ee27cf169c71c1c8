/**
 * Moves the focus to the question that keys act on, or to the heading of the screen if none is
 * open. A screen reader announces both. Waits until the page is rendered.
 */
export function focusQuestion(): void {
  requestAnimationFrame(() => {
    const selectors = [".question.current", "main h1"];
    const found = selectors.map((selector) => document.querySelector<HTMLElement>(selector));
    const element = found.find((one) => one !== null);
    // A field of the question may have the focus by now.
    if (element?.contains(document.activeElement) !== true) element?.focus();
  });
}

/** A ref: the element has the focus once it is there. */
export function focused(element: HTMLElement | null): void {
  element?.focus();
}

/** A ref: the element gets the focus once it is rendered, unless the user has moved on meanwhile. */
export function focusIfFree(element: HTMLElement | null): void {
  const { activeElement } = document;
  const isFree = activeElement === document.body || activeElement?.matches(":disabled") === true;
  if (isFree) element?.focus();
}
