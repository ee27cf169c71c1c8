/** What espalier calls itself to providers, to servers and in traces. `npm run release` writes the version. */
export const OWN_PACKAGE = { name: "espalier", version: "0.1.0" } as const;
