/** The highest that a provider takes; the least is 0. */
export const MAX_TEMPERATURE = 2;
