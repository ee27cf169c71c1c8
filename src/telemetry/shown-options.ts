/** The names of the options that say how runs are shown, however the SDK was set up. */
export const SHOWN_OPTIONS = ["content", "maxSpansPerTrace", "baggage", "meter", "legacyMetrics"];
