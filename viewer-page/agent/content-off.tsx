export function ContentOff() {
  return (
    <p class="notice">
      Content is hidden: this viewer was started without it. Prompts, calls, results and texts stay
      in the store.
    </p>
  );
}
