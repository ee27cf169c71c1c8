// An outcome as the model will read it: cut where it is too long for the model; the whole is kept with the call (R111).

import { shortenReports } from "../../tools/shorten-reports.ts";
import { shortenText, type ShortenedText } from "../../tools/shorten-text.ts";
import type { PlannedCall } from "../effects.ts";
import type { CallOutcome, TextRange } from "./call-outcome.ts";

/** An outcome as the model will read it. */
export type Formatted<Outcome extends CallOutcome = CallOutcome> = Outcome & Shown;

interface Shown {
  readonly isShortened: boolean;
  /** The whole text, if it was cut. */
  readonly fullText?: string;
  /** How much of it is shown. */
  readonly shownCharacters?: number;
}

/** So much of what is said of a failure besides the tool's own words is shown, however short results are to be. */
const ROOM_FOR_ADVICE = 2_000;

/** Of a failure the tool's own words are cut, of what a delegation gave the texts in its JSON, and anything else at its end. */
export function shortenedOutcome(
  { bound, settings }: PlannedCall,
  outcome: CallOutcome,
): ShortenedText {
  const { maxResultCharacters: most } = settings;
  const { type, text, words } = outcome;
  if (words !== undefined) return shortenWords(text, words, most);
  const isLong = text.length > most;
  const isDelegated = isLong && bound.tool?.kind === "delegation";
  const reports = isDelegated ? shortenReports(text, most) : undefined;
  const room = type === "succeeded" ? most : Math.max(most, ROOM_FOR_ADVICE);
  return reports ?? shortenText(text, room);
}

function shortenWords(text: string, { start, end }: TextRange, most: number): ShortenedText {
  const part = shortenText(text.slice(start, end), most);
  const totalCharacters = text.length;
  return {
    text: `${text.slice(0, start)}${part.text}${text.slice(end)}`,
    isShortened: part.isShortened,
    totalCharacters,
    shownCharacters: totalCharacters - part.totalCharacters + part.shownCharacters,
  };
}
