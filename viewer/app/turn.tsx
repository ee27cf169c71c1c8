interface TurnProps {
  /** Such as `Next step`. */
  readonly to: string;
  /** The key that does the same. */
  readonly by?: string;
  readonly disabled?: boolean;
  readonly onClick: () => void;
}

/** A button that leads to the one before or after. */
export function Turn({ to, by, disabled = false, onClick }: TurnProps) {
  const title = by === undefined ? undefined : `${to}: ${by}`;
  return (
    <button class="small" aria-label={to} title={title} disabled={disabled} onClick={onClick}>
      {to.startsWith("Previous") ? "‹" : "›"}
    </button>
  );
}
