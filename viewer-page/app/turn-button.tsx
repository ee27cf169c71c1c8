interface TurnProps {
  /** Label, such as `Next step`. */
  readonly to: string;
  /** Shortcut with the same effect. */
  readonly by?: string;
  readonly disabled?: boolean;
  readonly onClick: () => void;
}

/** A button for the previous or next item. */
export function Turn({ to, by, disabled = false, onClick }: TurnProps) {
  const title = by === undefined ? undefined : `${to}: ${by}`;
  return (
    <button class="small" aria-label={to} title={title} disabled={disabled} onClick={onClick}>
      {to.startsWith("Previous") ? "‹" : "›"}
    </button>
  );
}
