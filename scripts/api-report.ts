// `npm run check:api` compares what users can import with the reports in etc/; `npm run api` writes them anew.
// A changed line in a report is a decision about the public surface and belongs into CHANGELOG.md.

import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { z } from "zod";

const isWriting = process.argv.includes("--write");
const ManifestSchema = z.object({
  exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string() })])),
});
const manifest = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));

function reportOf(entry: string, types: string): boolean {
  const name = entry === "." ? "espalier" : `espalier-${entry.slice(2).replaceAll("/", "-")}`;
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: resolve("."),
      mainEntryPointFilePath: resolve(types),
      compiler: { tsconfigFilePath: resolve("tsconfig.build.json") },
      apiReport: {
        enabled: true,
        includeForgottenExports: true,
        reportFileName: `${name}.api.md`,
        reportFolder: resolve("etc"),
        reportTempFolder: resolve("temp"),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      newlineKind: "lf",
      messages: {
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: resolve("package.json"),
  });
  const result = Extractor.invoke(config, {
    localBuild: isWriting,
    showVerboseMessages: false,
    messageCallback: (message) => {
      message.handled = true;
    },
  });
  if (result.apiReportChanged && !isWriting) {
    console.error(
      `${entry}: the public surface is not the one of etc/${name}.api.md. Run \`npm run api\` and review the change.`,
    );
  }
  return isWriting || !result.apiReportChanged;
}

mkdirSync("etc", { recursive: true });
const entries = Object.entries(manifest.exports).flatMap(([entry, target]) =>
  typeof target === "string" ? [] : [{ entry, types: target.types }],
);
const fits = entries.map(({ entry, types }) => reportOf(entry, types));
if (fits.includes(false)) process.exitCode = 1;
