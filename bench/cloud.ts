/**
 * What jobs cost, and how soon they start, in a model of the cloud around the real code of every role: see
 * `docs/cost-and-speed.md` for its figures, what it assumes and where that comes from.
 *
 *   npm run bench:cloud -- [--json] [--only load=1/s,keys=50] [--save]
 *                          [--table new|quota|raised] [--pollers documented|five] [--seed 1]
 *
 * Prints a table, or with `--json` the rows as they are. `--save` keeps them as `docs/cost-and-speed.json`, where rows that
 * were not measured now stay as they were, and writes the document anew.
 */
import { parseArgs } from 'node:util';
import { POLLER_MODELS } from './cloud/deployment.ts';
import { readResult, saveResult, writeDocuments } from './cloud/document.ts';
import { measureIdle, measureRow, type Row } from './cloud/measure.ts';
import { printed } from './cloud/print.ts';
import { formatResult, merged } from './cloud/result.ts';
import { nameOf, pickRows, type RowSpec } from './cloud/rows.ts';
import { TABLES } from './cloud/throttle.ts';

const BAD_ARGUMENTS = 2;

/** Thrown for an argument with a value that is not allowed. */
class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
}

function oneOf<T extends string>(option: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((each) => each === value);
  if (found !== undefined) return found;
  throw new ArgumentError(`--${option} is ${JSON.stringify(value)}; it is one of ${allowed.join(', ')}`);
}

function seedOf(text: string): number {
  const seed = Number(text);
  if (Number.isSafeInteger(seed) && seed >= 0) return seed;
  throw new ArgumentError(`--seed is ${JSON.stringify(text)}; it is a whole number from 0`);
}

function argumentsOf(argv: readonly string[]) {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      json: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      only: { type: 'string' },
      table: { type: 'string' },
      pollers: { type: 'string', default: 'documented' },
      seed: { type: 'string', default: '1' },
    },
  });
  return {
    ...values,
    rows: pickRows(values.only),
    limits:
      values.table === undefined
        ? undefined
        : TABLES[oneOf('table', values.table, ['new', 'quota', 'raised'] as const)],
    pollers: oneOf('pollers', values.pollers, POLLER_MODELS),
    seed: seedOf(values.seed),
  };
}

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
  const { rows: specs, limits, pollers, seed, json, save } = argumentsOf(process.argv.slice(2));
  const tell = progress(specs.length);
  const rows: Row[] = [];
  const keep = async () => {
    const idle = await measureIdle({ seed, pollers });
    return { rows, idle };
  };
  for (const [at, spec] of specs.entries()) {
    const { row, usage, failures } = await measureRow(spec, {
      seed,
      pollers,
      ...(limits === undefined ? {} : { scale: { limits } }),
      onProgress: (share) => tell(at, spec, share),
    });
    rows.push(row);
    const trouble = [...failures].map(([name, count]) => `${count} times ${name}`);
    if (usage.throttled > 0) trouble.unshift(`${usage.throttled} requests were throttled`);
    if (trouble.length > 0) process.stderr.write(`  ${trouble.join(', ')}\n`);
  }
  const result = await keep();
  if (save) {
    await saveResult(merged(await readResult(), result));
    await writeDocuments();
  }
  process.stdout.write(json ? formatResult(result) : `${printed(result)}\n`);
}

try {
  await main();
} catch (error) {
  const isArgument =
    error instanceof Error &&
    (['ArgumentError', 'RowsError'].includes(error.name) ||
      ('code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')));
  if (!isArgument) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(BAD_ARGUMENTS);
}
process.exit(0);
