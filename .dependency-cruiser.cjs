/**
 * Imports point one way: core ← contracts ← submit, declaration, dispatch, schedules, deploy, operate, worker ← functions, cli.
 * Adapters meet in composition roots only.
 */
const CORE = '^lib/core/';
const CONTRACTS = '^lib/((queue|events|objects|runtime|metrics|cron)/[^/]+\\.ts$|store/contract/)';
/** The format of the items of the table. Every store that keeps it is built on this. */
const TABLE = '^lib/store/table/';
const ADAPTERS = '^lib/((queue|events|objects)/[^/]+/|store/(table|dynamodb|memory)/)';
const SIMULATE = '^lib/simulate/';
/** A whole scheduler in one process, on the memory adapters. */
const LOCAL = '^lib/local/';
const MODELS = '^lib/simulate/model/';
/** The use cases, each folder above those that it may import. `dispatch` without a folder is its root: the calls that functions make. */
const USE_CASES = [
  'submit',
  'declaration',
  'dispatch/view',
  'dispatch/partition',
  'dispatch/partitions',
  'dispatch/recovery',
  'dispatch/pass',
  'dispatch/lead',
  'dispatch',
  'dispatch/resident',
  'schedules',
  'deploy',
  'operate',
];
/** Numbers, which every folder of `dispatch` may use. */
const TUNING = '^lib/dispatch/tuning\\.ts$';
const filesOf = (folder) => `^lib/${folder}/[^/]+$`;
/** The only places where adapters are built and the environment is read. */
const ROOTS =
  '^(functions/|cdk/|examples/|bench/|test/|lib/worker/(lambda|fleet-worker|guard-thread)\\.ts$|lib/(client|cli|dev|local|simulate|testing)/)';

/** A handler may use the client of its worker's scheduler. */
const WORKER_CLIENT = '^lib/worker/client\\.ts$';

module.exports = {
  forbidden: [
    {
      name: 'core-is-pure',
      comment: 'lib/core decides; it imports nothing but itself, no Node module and no package.',
      severity: 'error',
      from: { path: CORE },
      to: { pathNot: CORE },
    },
    {
      name: 'declared-jobs-know-only-core',
      comment: 'A producer that imports declared jobs bundles no worker and no SDK.',
      severity: 'error',
      from: { path: '^lib/jobs/' },
      to: { pathNot: [CORE, '^lib/jobs/'] },
    },
    {
      name: 'contracts-know-only-core',
      severity: 'error',
      from: { path: CONTRACTS },
      to: { path: '^(lib|cdk|functions|examples|bench|test)/', pathNot: [CORE, CONTRACTS] },
    },
    {
      name: 'adapters-know-only-contracts',
      severity: 'error',
      from: { path: ADAPTERS },
      to: { path: '^(lib|cdk|functions|examples|bench|test)/', pathNot: [CORE, CONTRACTS, ADAPTERS] },
    },
    {
      name: 'adapters-meet-in-composition-roots',
      severity: 'error',
      from: { pathNot: [ADAPTERS, ROOTS] },
      to: { path: ADAPTERS },
    },
    {
      name: 'use-cases-know-no-surface',
      severity: 'error',
      from: { path: ['^lib/worker/', ...USE_CASES.map(filesOf)], pathNot: WORKER_CLIENT },
      to: {
        path: '^(functions|cdk|examples|bench|test|lib/(client|http|cli|dashboard|dev|local|simulate|testing))/',
      },
    },
    ...USE_CASES.slice(0, -1).map((folder, at) => ({
      name: `${folder.replace('/', '-')}-imports-nothing-above-it`,
      comment: 'The flow goes one way: what a folder passes on is used above it, and nothing comes back.',
      severity: 'error',
      from: { path: filesOf(folder) },
      to: { path: [...USE_CASES.slice(at + 1).map(filesOf), '^lib/worker/'], pathNot: TUNING },
    })),
    {
      name: 'the-format-of-items-knows-no-store',
      severity: 'error',
      from: { path: TABLE },
      to: { path: '^lib/', pathNot: [CORE, CONTRACTS, TABLE] },
    },
    {
      name: 'stores-know-no-other-store',
      comment: 'What the stores share is the contract and the format of items.',
      severity: 'error',
      from: { path: '^lib/store/(dynamodb|memory)/' },
      to: { path: '^lib/store/(dynamodb|memory)/', pathNot: '^lib/store/$1/' },
    },
    {
      name: 'production-simulates-nothing',
      comment: 'lib/simulate runs scenarios: for the command line, benchmarks and tests.',
      severity: 'error',
      from: { path: '^(lib|cdk|functions)/', pathNot: '^lib/(cli|simulate)/' },
      to: { path: SIMULATE },
    },
    {
      name: 'production-runs-nothing-in-memory',
      comment:
        'lib/local is a whole scheduler in one process: for the test kit, the command line and simulations.',
      severity: 'error',
      from: { path: '^(lib|cdk|functions)/', pathNot: '^lib/(cli|dev|local|simulate|testing)/' },
      to: { path: LOCAL },
    },
    {
      name: 'the-local-scheduler-knows-no-surface',
      severity: 'error',
      from: { path: LOCAL },
      to: { path: '^(functions|cdk|examples|bench|test|lib/(client|http|cli|dev|simulate|testing))/' },
    },
    {
      name: 'the-protocol-knows-only-the-client',
      comment: 'lib/http carries the verbs of the client, and no store and no use case of its own.',
      severity: 'error',
      from: { path: '^lib/http/' },
      to: {
        path: [
          '^(functions|cdk|examples|bench|test|lib/(cli|dashboard|dispatch|simulate|testing|worker))/',
          ADAPTERS,
        ],
      },
    },
    {
      name: 'a-client-serves-nothing',
      comment: 'A producer bundles no server.',
      severity: 'error',
      from: { path: '^lib/client/' },
      to: { path: '^lib/http/' },
    },
    {
      name: 'simulations-know-no-surface',
      severity: 'error',
      from: { path: SIMULATE },
      to: { path: '^(functions|cdk|examples|bench|test|lib/(client|http|cli|dashboard))/' },
    },
    {
      name: 'models-know-only-core',
      comment: 'lib/simulate/model holds rules of the sources that the product keeps in another form.',
      severity: 'error',
      from: { path: MODELS },
      to: { pathNot: [CORE, MODELS] },
    },
    {
      name: 'nothing-imports-the-functions',
      severity: 'error',
      from: { pathNot: '^(functions|test)/' },
      to: { path: '^functions/' },
    },
    {
      name: 'the-stack-runs-no-scheduler',
      comment:
        'cdk/ is infrastructure: it takes names and configuration from lib, no use cases, no adapters.',
      severity: 'error',
      from: { path: '^cdk/' },
      to: {
        path: ['^lib/(worker|client|cli|dev|local|testing)/', ADAPTERS],
        pathNot: '^lib/store/table/schema\\.ts$',
      },
    },
    {
      name: 'product-imports-no-tests',
      severity: 'error',
      from: { path: '^(lib|cdk|functions)/' },
      to: { path: '^(test|bench|examples)/', pathNot: '^examples/files/stack\\.ts$' },
    },
    {
      name: 'examples-of-uses-import-the-package',
      comment: 'They are what a user writes.',
      severity: 'error',
      from: { path: '^examples/uses/' },
      to: {
        path: '^(lib|cdk|functions|bench|test)/',
        pathNot: '^lib/(client/aws|jobs/jobs|testing/index|worker/lambda)\\.ts$',
      },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(node_modules|dist|cdk\\.out|coverage|reports|\\.fairlead|\\.localstack)/' },
    parser: 'swc',
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
