/** The names of the options that say how runs are shown, whoever has set up the SDK. */
export const SHOWN_OPTIONS = ["content", "maxSpansPerTrace", "baggage", "meter", "legacyMetrics"];
