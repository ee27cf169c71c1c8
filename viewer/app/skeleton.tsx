/** In place of rows that are on their way; seen after 150 ms, so that what comes soon does not flicker. */
export function Skeleton({ rows }: { readonly rows: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_none, index) => (
        <div key={index} class="bone" />
      ))}
    </div>
  );
}
