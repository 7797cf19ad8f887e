/** `fairlead simulate FILE`: runs a scenario on the scheduler, or on its core, under virtual time. */

import * as z from 'zod';
import { ConfigurationError, ValidationError } from '../core/errors.ts';
import { type FairnessResult, type Run, simulateFairness } from '../simulate/fairness.ts';
import { simulatePartitions } from '../simulate/partitions.ts';
import { type ProductResult, simulateProduct } from '../simulate/product.ts';
import { productScenario } from '../simulate/product-scenario.ts';
import {
  fairnessScenario,
  partitionsCase,
  REFERENCE_REMARKS,
  scoringCase,
  timersCase,
} from '../simulate/reference-scenarios.ts';
import { caseId, check, pathOf, refuseDuplicates } from '../simulate/scenario-file.ts';
import { simulateScoring } from '../simulate/scoring.ts';
import { simulateTimers } from '../simulate/timers.ts';
import {
  type Column,
  chart,
  duration,
  MOST_ROWS,
  number,
  numberColumn,
  printable,
  table,
  textColumn,
  uncutColumn,
} from './report.ts';

/** The result of one case, as data and as text. */
export interface Simulated {
  readonly id: string;
  readonly result: Readonly<Record<string, unknown>>;
  /** Returns the result as text. It is a function, because tables and charts take longer than many a case. */
  readonly text: (width: number) => string;
}

/** The results of a file's cases, in the file's order. */
export interface Simulation {
  readonly schema: string;
  readonly results: readonly Simulated[];
}

/** Checks a case, and returns a function that runs it. */
type Prepare = (scenario: unknown, path: string) => () => CaseOutput | Promise<CaseOutput>;
type CaseOutput = Omit<Simulated, 'id'>;

interface Format {
  /** The field that holds the cases. */
  readonly list: 'cases' | 'scenarios';
  /** Fields that a file may have beside its cases. */
  readonly remarks: Readonly<Record<string, z.ZodType>>;
  readonly prepare: Prepare;
}

const FORMATS: ReadonlyMap<string, Format> = new Map<string, Format>([
  ['fairness', { list: 'scenarios', remarks: REFERENCE_REMARKS, prepare: fairness }],
  ['scoring', { list: 'cases', remarks: REFERENCE_REMARKS, prepare: scoring }],
  ['timers', { list: 'cases', remarks: REFERENCE_REMARKS, prepare: timers }],
  ['partitions', { list: 'cases', remarks: REFERENCE_REMARKS, prepare: partitions }],
  ['fairlead', { list: 'scenarios', remarks: {}, prepare: product }],
]);

/**
 * Runs the cases of a file, or only the case `only`. All cases are checked first, also those that do not run.
 * @throws ValidationError - it names the path of the first field that is wrong
 */
export async function simulate(file: unknown, only?: string): Promise<Simulation> {
  const { schema } = check(z.looseObject({ schema: z.string() }), file, '');
  const format = FORMATS.get(schema.replace(/\/\d+$/, ''));
  if (format === undefined || !/\/\d+$/.test(schema)) {
    const known = [...FORMATS.keys()].map((name) => `${name}/1`).join(', ');
    throw new ValidationError('schema', `${JSON.stringify(schema)} is none of ${known}`);
  }
  const list = z.array(z.looseObject({ id: caseId }));
  check(z.strictObject({ schema: z.string(), [format.list]: list, ...format.remarks }), file, '');
  const cases = check(
    z.looseObject({ [format.list]: list }).transform((all) => all[format.list]),
    file,
    '',
  );
  const ids = check(list, cases, format.list).map(({ id }) => id);
  refuseDuplicates(ids, format.list, 'id');
  if (only !== undefined && !ids.includes(only)) {
    throw new ValidationError('', `no case has the id ${JSON.stringify(only)}`);
  }
  const prepared = check(list, cases, format.list).map((scenario, index) => {
    const path = pathOf([format.list, index]);
    return { id: scenario.id, path, run: format.prepare(scenario, path) };
  });
  const results: Simulated[] = [];
  for (const { id, path, run } of prepared) {
    if (only === undefined || id === only) results.push({ id, ...(await runAtPath(path, run)) });
  }
  return { schema, results };
}

/** Returns the output with `--json`. */
export function asData({ schema, results }: Simulation): {
  readonly schema: string;
  readonly results: readonly Readonly<Record<string, unknown>>[];
} {
  return { schema, results: results.map(({ id, result }) => ({ id, ...result })) };
}

/** Returns the output for people. */
export function asText({ results }: Simulation, width: number): string {
  return results.map(({ id, text }) => `■ ${printable(id)}\n${text(width)}`).join('\n\n');
}

async function runAtPath(path: string, run: () => CaseOutput | Promise<CaseOutput>): Promise<CaseOutput> {
  try {
    return await run();
  } catch (error) {
    // This is a rule of the core that the schema does not check, such as a position outside of the ring.
    if (error instanceof ConfigurationError) {
      throw new ValidationError(`${path}.input.${error.field}`, error.message.slice(error.field.length + 2));
    }
    throw error;
  }
}

function fairness(scenario: unknown, path: string): ReturnType<Prepare> {
  const checked = check(fairnessScenario, scenario, path);
  return () => {
    const { result, runs } = simulateFairness(checked, path);
    return { result: { ...result }, text: (width) => fairnessText(result, runs, checked.untilMs, width) };
  };
}

function fairnessText(result: FairnessResult, runs: readonly Run[], untilMs: number, width: number): string {
  const keys = Object.keys(result.accumulated).sort();
  const rows = keys.map((key) => {
    const own = runs.filter(({ group }) => group === key);
    const waits = own.flatMap(({ readyAtMs, startMs }) =>
      startMs === undefined ? [] : [startMs - readyAtMs],
    );
    const total = waits.reduce((sum, wait) => sum + wait, 0);
    return [
      key,
      own.length,
      waits.length,
      result.accumulated[key],
      waits.length === 0 ? '-' : duration(total / waits.length),
      waits.length === 0 ? '-' : duration(waits.reduce((most, wait) => Math.max(most, wait), 0)),
    ];
  });
  return [
    table(
      [
        textColumn('fairness key'),
        numberColumn('arrived'),
        numberColumn('started'),
        numberColumn('cost (s)'),
        numberColumn('mean wait', 1),
        numberColumn('longest wait'),
      ],
      rows,
      width,
      MOST_ROWS,
    ),
    chart(runs, untilMs, width),
    table(
      [numberColumn('started at'), uncutColumn('id')],
      result.dispatch.map(([atMs, id]) => [duration(atMs), id]),
      width,
      20,
    ),
  ].join('\n');
}

function scoring(scenario: unknown, path: string): ReturnType<Prepare> {
  const checked = check(scoringCase, scenario, path);
  return () => {
    const { result, runs } = simulateScoring(checked, path);
    return {
      result,
      text: (width) => {
        const text = fieldsText(result, width);
        const lastMs = runs.reduce((last, { endMs, readyAtMs }) => Math.max(last, endMs ?? readyAtMs), 0);
        return runs.length === 0 ? text : `${chart(runs, lastMs, width)}\n${text}`;
      },
    };
  };
}

function timers(scenario: unknown, path: string): ReturnType<Prepare> {
  const { input } = check(timersCase, scenario, path);
  return () => {
    const result = simulateTimers(input);
    return { result: { ...result }, text: (width) => fieldsText({ ...result }, width) };
  };
}

function partitions(scenario: unknown, path: string): ReturnType<Prepare> {
  const checked = check(partitionsCase, scenario, path);
  return () => {
    const result = simulatePartitions(checked, path);
    return { result, text: (width) => fieldsText(result, width) };
  };
}

function fieldsText(result: Readonly<Record<string, unknown>>, width: number): string {
  return Object.entries(result)
    .map(([name, value]) => {
      if (!Array.isArray(value) || value.length === 0) return `${name}: ${valueText(value)}`;
      return `${name}:\n${table(
        [numberColumn(''), textColumn('')],
        value.map((entry, index) => [index + 1, valueText(entry)]),
        width,
        MOST_ROWS,
      )}`;
    })
    .join('\n');
}

function valueText(value: unknown): string {
  if (typeof value === 'number') return number(value);
  if (typeof value === 'string') return printable(value);
  if (Array.isArray(value)) return value.map(valueText).join('  ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, field]) => `${printable(name)} ${valueText(field)}`)
    .join(', ');
}

function product(scenario: unknown, path: string): ReturnType<Prepare> {
  const checked = check(productScenario, scenario, path);
  return async () => {
    const { result, runs } = await simulateProduct(checked, path);
    return { result: { ...result }, text: (width) => productText(result, runs, checked.untilMs, width) };
  };
}

function productText(result: ProductResult, runs: readonly Run[], untilMs: number, width: number): string {
  const shares = (entries: ProductResult['keys'] | ProductResult['types']): readonly (readonly unknown[])[] =>
    Object.entries(entries).map(([name, share]) => [
      name,
      share.submitted,
      share.succeeded,
      share.failed,
      share.cancelled,
      share.expired,
      share.running,
      share.waiting,
      duration(share.busyMs),
      duration(share.waitMeanMs),
      duration(share.waitMaxMs),
    ]);
  const costs = Object.entries(result.keys).map(([key, { costMs, weight }]) => [
    key,
    duration(costMs),
    weight,
  ]);
  const fleets = Object.entries(result.fleets).map(([fleet, { slots, slotMs, peak, busyMs }]) => [
    fleet,
    slots,
    peak,
    duration(busyMs),
    slotMs === 0 ? '-' : `${number(Math.round((1_000 * busyMs) / slotMs) / 10)} %`,
  ]);
  const stuck =
    result.waiting.length === 0 ? [] : [`waiting at the end: ${result.waiting.map(printable).join(', ')}`];
  const fleetColumns = [
    textColumn('fleet'),
    numberColumn('slots at end'),
    numberColumn('most at once', 1),
    numberColumn('busy'),
    numberColumn('of capacity'),
  ];
  return [
    table([textColumn('fairness key'), ...SHARE_COLUMNS], shares(result.keys), width, MOST_ROWS),
    chart(runs, untilMs, width),
    table(
      [textColumn('fairness key'), numberColumn('cost'), numberColumn('weight')],
      costs,
      width,
      MOST_ROWS,
    ),
    table([textColumn('type'), ...SHARE_COLUMNS], shares(result.types), width, MOST_ROWS),
    table(fleetColumns, fleets, width, MOST_ROWS),
    ...stuck,
  ].join('\n');
}

const SHARE_COLUMNS: readonly Column[] = [
  numberColumn('submitted', 1),
  numberColumn('succeeded'),
  numberColumn('failed', 2),
  numberColumn('cancelled', 6),
  numberColumn('expired', 7),
  numberColumn('running', 4),
  numberColumn('waiting', 3),
  numberColumn('busy', 5),
  numberColumn('mean wait'),
  numberColumn('longest'),
];
