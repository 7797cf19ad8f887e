/** The tools that `npm run check` runs over the project; `rules.test.ts` runs them over small wrong trees. */
export type Tool = readonly [name: string, command: string, ...args: string[]];

export const TYPES: Tool = ['types', 'tsc', '--project', '.'];

/** The page of the dashboard runs in browsers. */
const TYPES_OF_PAGE: Tool = ['types of the page', 'tsc', '--project', 'lib/dashboard/page'];

export const FORMAT_AND_LINT: Tool = ['format and lint', 'biome', 'check', '--error-on-warnings', '.'];

export const IMPORT_DIRECTIONS: Tool = [
  'import directions',
  'depcruise',
  '--config',
  '.dependency-cruiser.cjs',
  'lib',
  'functions',
  'cdk',
  'examples',
  'bench',
  'test',
];

/** Files, exports and dependencies that nothing uses. */
export const DEAD_CODE: Tool = ['dead code', 'knip'];

/** Files and exports of the product that only tests, benchmarks and examples use. */
export const UNUSED_IN_PRODUCTION: Tool = [
  'unused in production',
  'knip',
  '--production',
  '--include',
  'files,exports',
];

export const TOOLS: readonly Tool[] = [
  TYPES,
  TYPES_OF_PAGE,
  FORMAT_AND_LINT,
  IMPORT_DIRECTIONS,
  DEAD_CODE,
  UNUSED_IN_PRODUCTION,
  ['plain English', 'node', 'test/english.ts'],
  ['package', 'node', 'test/package/check.ts'],
  ['cdk-nag and cfn-lint', 'node', 'test/cdk/review.ts'],
];
