/**
 * What jobs cost, and how soon they start, in a model of the cloud around the real code of every role: see
 * `docs/cost-and-speed.md` for its figures, what it assumes and where that comes from.
 *
 *   npm run bench:cloud -- [--json] [--only load=1/s,keys=50] [--save] [--sources]
 *                          [--table new|quota|raised|10000] [--key-units 1000]
 *                          [--pollers documented|five] [--workers functions|processes]
 *                          [--prompt yes|no] [--batch 1 to 10] [--producers 4]
 *                          [--rate jobs a second] [--seed 1]
 *
 * Prints a table, or with `--json` the rows as they are. `--save` keeps them as `docs/cost-and-speed.json`, where rows that
 * were not measured now stay as they were, and writes the document anew. `--sources` says of each row who used what: write units
 * by verb, bytes of logs by function and message, metrics by their dimensions.
 */
import { isArgumentError, parseArguments } from './cloud/arguments.ts';
import { readResult, saveResult, writeDocuments } from './cloud/document.ts';
import { measureIdle, measureRow, type Row } from './cloud/measure.ts';
import { printed, printedSources } from './cloud/print.ts';
import { formatResult, merged } from './cloud/result.ts';
import { nameOf, type RowSpec, scaleOf } from './cloud/rows.ts';

const BAD_ARGUMENTS = 2;

/** A line that is written over on a terminal; elsewhere one line for each row that is done. */
function progress(count: number): (at: number, spec: RowSpec, share: number) => void {
  const { stderr } = process;
  return (at, spec, share) => {
    const line = `row ${at + 1} of ${count}: ${nameOf(spec)}, ${Math.round(100 * share)} %`;
    if (stderr.isTTY) stderr.write(`\r\u001B[2K${line}${share >= 1 ? '\n' : ''}`);
    else if (share >= 1) stderr.write(`${line}\n`);
  };
}

async function main(): Promise<void> {
  const {
    rows: specs,
    limits,
    pollers,
    workers,
    isPrompt,
    batchSize,
    producers,
    jobsPerSecond,
    seed,
    json,
    save,
    sources: isDetailed,
  } = parseArguments(process.argv.slice(2));
  const tell = progress(specs.length);
  const rows: Row[] = [];
  const idle = await measureIdle({ seed, pollers });
  for (const [at, spec] of specs.entries()) {
    const { row, usage, failures, sources, metrics } = await measureRow(spec, {
      seed,
      pollers,
      workers,
      isPrompt,
      batchSize,
      producers,
      scale: {
        ...(jobsPerSecond === undefined ? {} : { jobsPerSecond, backlog: 0 }),
        limits: { ...scaleOf(spec).limits, ...limits },
      },
      onProgress: (share) => tell(at, spec, share),
    });
    rows.push(row);
    if (save) await saveResult(merged(await readResult(), { rows: [row], idle }));
    const trouble = [...failures].map(([name, count]) => `${count} times ${name}`);
    if (usage.throttled > 0) trouble.unshift(`${usage.throttled} requests were throttled`);
    if (isDetailed) process.stderr.write(`${printedSources(sources, metrics)}\n`);
    if (trouble.length > 0) process.stderr.write(`  ${trouble.join(', ')}\n`);
  }
  if (save) await writeDocuments();
  const result = { rows, idle };
  process.stdout.write(json ? formatResult(result) : `${printed(result)}\n`);
}

try {
  await main();
} catch (error) {
  if (!isArgumentError(error)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(BAD_ARGUMENTS);
}
process.exit(0);
