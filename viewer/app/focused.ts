/** A ref: the element has the focus once it is there. */
export function focused(element: HTMLElement | null): void {
  element?.focus();
}
