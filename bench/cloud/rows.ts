/** The matrix: what a row is, which rows are measured unless others are asked for, and how they are picked. */
import { TABLES, type TableLimits } from './throttle.ts';

export const AXES = {
  load: ['saturated', 'half', '100/s', '20/s', '1/s'],
  keys: [1, 50, 1_000, 10_000],
  payloadBytes: [200, 4_096, 65_536],
  path: ['client', 'bus', 'bus10'],
  shards: [1, 2, 4, 8, 16],
  partitions: [1, 4, 16],
  dispatchers: ['functions', 'residents'],
  /** An option of each job, or of its type. */
  adds: [
    'nothing',
    'typed',
    'tags',
    'searchable',
    'lists',
    'expires',
    'steps',
    'dedupe',
    'rate',
    'keyRate',
    'units',
    'statistics',
  ],
} as const;

export type Axis = keyof typeof AXES;
const AXIS_NAMES = Object.keys(AXES) as Axis[];

/** One row's conditions. */
export type RowSpec = { readonly [A in Axis]: (typeof AXES)[A][number] };

/** What most rows have. */
export const USUAL: RowSpec = {
  load: 'saturated',
  keys: 50,
  payloadBytes: 200,
  path: 'client',
  shards: 1,
  partitions: 1,
  dispatchers: 'functions',
  adds: 'nothing',
};

const row = (own: Partial<RowSpec>): RowSpec => ({ ...USUAL, ...own });

/** What is measured unless other rows are asked for: one thing differs from the usual at a time. */
export const DEFAULT_ROWS: readonly RowSpec[] = [
  row({}),
  row({ load: 'half' }),
  row({ load: 'half', keys: 1_000 }),
  row({ load: '100/s', shards: 4 }),
  row({ load: '20/s', shards: 4 }),
  row({ load: '20/s', shards: 4, adds: 'typed' }),
  row({ load: '20/s', shards: 4, adds: 'tags' }),
  row({ load: '20/s', shards: 4, adds: 'searchable' }),
  row({ load: '20/s', shards: 4, adds: 'lists' }),
  row({ load: '20/s', shards: 4, adds: 'expires' }),
  row({ load: '20/s', shards: 4, adds: 'steps' }),
  row({ load: '20/s', shards: 4, adds: 'dedupe' }),
  row({ load: '20/s', shards: 4, adds: 'rate' }),
  row({ load: '20/s', shards: 4, adds: 'keyRate' }),
  row({ load: '20/s', shards: 4, adds: 'units' }),
  row({ load: '20/s', shards: 4, adds: 'statistics' }),
  row({ load: '1/s' }),
  row({ load: '1/s', keys: 10_000 }),
  row({ load: '1/s', path: 'bus' }),
  row({ load: '1/s', dispatchers: 'residents' }),
  row({ payloadBytes: 4_096 }),
  row({ payloadBytes: 65_536 }),
  row({ path: 'bus' }),
  row({ path: 'bus10' }),
  row({ shards: 2 }),
  row({ shards: 4 }),
  row({ shards: 8 }),
  row({ load: 'half', keys: 1_000, shards: 4 }),
  row({ keys: 1_000, shards: 4 }),
  row({ dispatchers: 'residents' }),
  row({ keys: 1 }),
  row({ keys: 1_000 }),
  row({ keys: 10_000 }),
  row({ keys: 1_000, partitions: 4, shards: 4 }),
  row({ keys: 1_000, partitions: 16, shards: 16 }),
];

/** How a row is run; nothing of it is in the row's conditions. */
export interface RowScale {
  readonly slots: number;
  /** Each job's own time. */
  readonly jobMs: number;
  /** Undefined: a job is asked for whenever one has ended. */
  readonly jobsPerSecond: number | undefined;
  /** Jobs that wait when the run begins. */
  readonly backlog: number;
  /** Before anything is counted. */
  readonly warmUpMs: number;
  /** What is counted. */
  readonly windowMs: number;
  readonly limits: TableLimits;
}

const JOB_MS = 1_000;
/** From so many on, a partition's pool is large, and producers begin with all lines known; with more, what passes cost differs more. */
export const MANY_KEYS = 1_000;
const SMALL_POOL = 200;
/** Of a partition with a thousand keys and more. */
const LARGE_POOL = 1_500;
const FAST_POOL = 400;

/**
 * The pool of a row: 200 slots, or 1,500 for each partition of a saturated pool with a thousand keys or several partitions.
 * Its table is new, with 4,000 write units a second, unless what it is to do would not fit into that by far: then it is one
 * that was warmed up and whose quota was raised.
 */
export function scaleOf(spec: RowSpec): RowScale {
  const { load, keys, partitions, payloadBytes } = spec;
  const isLarge = load === 'saturated' && (keys >= MANY_KEYS || partitions > 1);
  const slots = isLarge ? LARGE_POOL * partitions : load === '100/s' ? FAST_POOL : SMALL_POOL;
  const limits = isLarge || payloadBytes > 4_096 ? TABLES.raised : TABLES.new;
  const shared = { slots, jobMs: JOB_MS, limits };
  const warmUpMs = 20_000;
  switch (load) {
    case 'saturated': {
      // The more at once, the shorter: each is to run in a minute of processor time.
      const counted = !isLarge
        ? { warmUpMs: 20_000, windowMs: 60_000 }
        : partitions === 1
          ? { warmUpMs: 15_000, windowMs: keys > MANY_KEYS ? 30_000 : 15_000 }
          : { warmUpMs: 6_000, windowMs: partitions > 4 ? 4_000 : 8_000 };
      return { ...shared, ...counted, jobsPerSecond: undefined, backlog: Math.max(5_000, 4 * slots) };
    }
    case 'half': {
      const jobsPerSecond = (slots * 1_000) / JOB_MS / 2;
      return { ...shared, jobsPerSecond, backlog: 0, warmUpMs, windowMs: 60_000 };
    }
    case '100/s':
      return { ...shared, jobsPerSecond: 100, backlog: 0, warmUpMs, windowMs: 60_000 };
    case '20/s':
      return { ...shared, jobsPerSecond: 20, backlog: 0, warmUpMs: 60_000, windowMs: 120_000 };
    case '1/s':
      // Lines of keys that have no more jobs are retired after ten minutes: the window is behind that.
      return { ...shared, jobsPerSecond: 1, backlog: 0, warmUpMs: 720_000, windowMs: 600_000 };
  }
}

/** Thrown for arguments that name no row. */
export class RowsError extends Error {
  override readonly name = 'RowsError';
}

const allowed = (): string => AXIS_NAMES.map((axis) => `${axis}=${AXES[axis].join('|')}`).join(', ');

const isAxis = (name: string): name is Axis => (AXIS_NAMES as readonly string[]).includes(name);

/**
 * Rows that fit a choice such as `load=1/s,keys=50`; an axis may be named more than once. If no row of the default list
 * fits, the one that differs from the usual in just what was named; so each row of the matrix can be had.
 *
 * @throws RowsError
 */
export function pickRows(only: string | undefined): readonly RowSpec[] {
  if (only === undefined) return DEFAULT_ROWS;
  const chosen = new Map<Axis, (string | number)[]>();
  for (const part of only.split(',')) {
    const [name = '', value = ''] = part.split('=').map((each) => each.trim());
    if (!isAxis(name)) {
      throw new RowsError(`--only names ${JSON.stringify(name)}; it takes ${allowed()}`);
    }
    const known = AXES[name].find((each) => String(each) === value);
    if (known === undefined) {
      throw new RowsError(`--only says ${name}=${value}; ${name} is one of ${AXES[name].join(', ')}`);
    }
    chosen.set(name, [...(chosen.get(name) ?? []), known]);
  }
  const fits = (spec: RowSpec): boolean => [...chosen].every(([axis, values]) => values.includes(spec[axis]));
  const named = [...chosen].reduce<readonly RowSpec[]>(
    (specs, [axis, values]) => specs.flatMap((spec) => values.map((value) => ({ ...spec, [axis]: value }))),
    [USUAL],
  );
  const listed = DEFAULT_ROWS.filter(fits);
  const isListed = (spec: RowSpec): boolean => listed.some((each) => isSame(each, spec));
  return [...listed, ...named.filter((spec) => !isListed(spec))];
}

export const isSame = (one: RowSpec, other: RowSpec): boolean =>
  AXIS_NAMES.every((axis) => one[axis] === other[axis]);

/** A row's conditions in words: those that differ from the usual, behind the load. */
export function nameOf(spec: RowSpec): string {
  const differing = AXIS_NAMES.filter(
    (axis) => axis !== 'load' && axis !== 'keys' && spec[axis] !== USUAL[axis],
  );
  const said: Readonly<Record<string, string>> = {
    payloadBytes: `${spec.payloadBytes >= 1_024 ? `${spec.payloadBytes / 1_024} KB` : `${spec.payloadBytes} B`} payload`,
    path: spec.path === 'bus10' ? 'by the bus, 10 an event' : 'by the bus',
    shards: `${spec.shards} shards`,
    partitions: `${spec.partitions} partitions`,
    dispatchers: 'residents',
    adds: {
      nothing: '',
      typed: 'schemas',
      tags: '2 tags',
      searchable: '2 tags, 1 searchable',
      lists: 'listFinished',
      expires: 'expireAfter',
      steps: '3 steps',
      dedupe: 'dedupe',
      rate: 'a rate',
      keyRate: 'a rate of keys',
      units: 'a rate of units',
      statistics: 'statistics',
    }[spec.adds],
  };
  return [
    spec.load,
    `${spec.keys} key${spec.keys === 1 ? '' : 's'}`,
    ...differing.map((axis) => said[axis]),
  ].join(', ');
}
