/** What espalier calls itself to providers, servers and those who read its traces. `npm run release` writes the version. */
export const OWN_PACKAGE = { name: "espalier", version: "0.1.0" } as const;
