// Listeners to a stream that want its texts alone.

interface Piece {
  readonly type: string;
  readonly text?: string;
}

/** For `onStreamPart` and `onDelta`: hears the text of a reply, as it comes. */
export function texts<T extends Piece>(hear: (text: string, piece: T) => void): (piece: T) => void {
  return (piece) => {
    if (piece.type === "text" && piece.text !== undefined) hear(piece.text, piece);
  };
}
