import type axe from "axe-core";

declare global {
  interface Window {
    /** In a page into which it was put. */
    readonly axe: typeof axe;
  }
}
