import type axe from "axe-core";

declare global {
  interface Window {
    /** Defined in a page into which axe was injected. */
    readonly axe: typeof axe;
  }
}
