/** Imports point one way: core ← contracts ← dispatch, worker ← functions, cli. Adapters meet in composition roots only. */
const CORE = '^lib/core/';
const CONTRACTS = '^lib/(store|queue|events|runtime|schedule|metrics)/[^/]+\\.ts$';
const ADAPTERS = '^lib/(store|queue|events|schedule)/[^/]+/';
const SIMULATE = '^lib/simulate/';
const MODELS = '^lib/simulate/model/';
const USE_CASES = '^lib/(dispatch|worker)/';
/** The only places where adapters are built and the environment is read. */
const ROOTS =
  '^(functions/|cdk/|examples/|bench/|test/|lib/worker/(lambda|fleet-worker|guard-thread)\\.ts$|lib/(client|cli|simulate|testing|dashboard)/)';

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
      from: { path: USE_CASES },
      to: { path: '^(functions|cdk|examples|bench|test|lib/(client|cli|dashboard|simulate|testing))/' },
    },
    {
      name: 'production-simulates-nothing',
      comment: 'lib/simulate runs scenarios: for the command line, benchmarks and tests.',
      severity: 'error',
      from: { path: '^(lib|cdk|functions)/', pathNot: '^lib/(cli|simulate)/' },
      to: { path: SIMULATE },
    },
    {
      name: 'simulations-know-no-surface',
      severity: 'error',
      from: { path: SIMULATE },
      to: { path: '^(functions|cdk|examples|bench|test|lib/(client|cli|dashboard))/' },
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
      to: { path: ['^lib/(worker|client|cli|testing)/', ADAPTERS] },
    },
    {
      name: 'product-imports-no-tests',
      severity: 'error',
      from: { path: '^(lib|cdk|functions)/' },
      to: { path: '^(test|bench|examples)/', pathNot: '^examples/files/stack\\.ts$' },
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
