/** `fairlead env`: turns the outputs of a deployment into the environment of clients, commands and workers. */
import { type Command, Option } from 'commander';
import { didYouMean } from '../core/spelling.ts';
import { type OutputOptions, printOutput } from './perform.ts';
import { jsonFrom, readText, UsageError } from './usage.ts';

/** The outputs of one stack, by name. */
export type Outputs = Readonly<Record<string, string>>;

/** A stack's outputs, and the region that it was found in. */
export interface StackFound {
  readonly outputs: Outputs;
  readonly region: string;
}

export type ReadStack = (stack: string) => Promise<StackFound>;

/** The command's surroundings. */
export interface EnvWriter {
  readonly readStack: ReadStack;
  readonly out: (text: string) => void;
}

/** The output that names the fleets, as a JSON array. It is checked, not printed. */
const FLEETS = 'FleetNames';

/** For each output of the construct, the variable that gets its value. */
const VARIABLES = {
  TableName: 'FAIRLEAD_TABLE',
  BusName: 'FAIRLEAD_BUS',
  WakeQueueUrl: 'FAIRLEAD_WAKE_QUEUE',
  WakeFunctionArn: 'FAIRLEAD_WAKE_FUNCTION',
  [FLEETS]: FLEETS,
} as const;
/** Variables that a scheduler may lack. */
const OPTIONAL: readonly string[] = ['FAIRLEAD_WAKE_FUNCTION', FLEETS];

type OutputName = keyof typeof VARIABLES;

/** The name of an output as the CDK makes it: the construct's path before it, and eight digits behind it. */
const OUTPUT = new RegExp(`^(.*?)(${Object.keys(VARIABLES).join('|')})(?:[0-9A-F]{8})?$`);

/** Returns the schedulers in a stack's outputs, by the construct's path. */
function schedulersIn(outputs: Outputs): ReadonlyMap<string, Outputs> {
  const found = new Map<string, Record<string, string>>();
  for (const [name, value] of Object.entries(outputs)) {
    const [, path, kind] = OUTPUT.exec(name) ?? [];
    if (path === undefined || kind === undefined) continue;
    const known = found.get(path) ?? {};
    known[VARIABLES[kind as OutputName]] = value;
    found.set(path, known);
  }
  const needed = Object.values(VARIABLES).filter((name) => !OPTIONAL.includes(name));
  return new Map([...found].filter(([, known]) => needed.every((name) => name in known)));
}

/**
 * Returns the environment for the outputs of a scheduler.
 * @throws UsageError if the outputs belong to no scheduler, or to several and none was named
 */
export function environmentIn(where: string, outputs: Outputs, scheduler: string | undefined): Outputs {
  const schedulers = schedulersIn(outputs);
  if (schedulers.size === 0) {
    const has = Object.keys(outputs).join(', ') || 'none';
    throw new UsageError(
      `${where}: the outputs belong to no scheduler (outputs: ${has}); deploy it again with this version of the construct`,
    );
  }
  if (scheduler !== undefined) {
    const named = schedulers.get(scheduler);
    if (named !== undefined) return named;
    throw new UsageError(`--scheduler: ${where} has no ${scheduler}; it has: ${namesOf(schedulers)}`);
  }
  // One scheduler may have outputs under several paths, such as those that its owner has added; one path may have
  // more of them than another.
  const tables = new Map<string | undefined, Outputs>();
  for (const each of schedulers.values())
    tables.set(each.FAIRLEAD_TABLE, { ...tables.get(each.FAIRLEAD_TABLE), ...each });
  const [only] = tables.values();
  if (only !== undefined && tables.size === 1) return only;
  throw new UsageError(`${where}: has several schedulers; name one with --scheduler: ${namesOf(schedulers)}`);
}

const namesOf = (schedulers: ReadonlyMap<string, Outputs>): string =>
  [...schedulers.keys()].filter((path) => path !== '').join(', ');

/** Returns the outputs in a file that `cdk deploy --outputs-file` wrote, which holds them by stack. */
export function outputsIn(file: string, stack: string | undefined): Outputs {
  const content = jsonFrom('--outputs', readText('--outputs', file));
  const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const stacks = isRecord(content) ? Object.entries(content).filter(([, outputs]) => isRecord(outputs)) : [];
  const named = stacks.filter(([name]) => stack === undefined || name === stack);
  const [only] = named;
  if (only === undefined || named.length > 1) {
    const names = stacks.map(([name]) => name).join(', ') || 'none';
    throw new UsageError(`--outputs: name one of the stacks in ${file} with --stack: ${names}`);
  }
  const outputs = Object.entries(only[1] as Readonly<Record<string, unknown>>);
  return Object.fromEntries(outputs.map(([name, value]) => [name, String(value)]));
}

const FORMATS = {
  dotenv: (name: string, value: string) =>
    `${name}=${/^[\w.:/@+-]*$/.test(value) ? value : JSON.stringify(value)}`,
  shell: (name: string, value: string) => `export ${name}='${value.replaceAll("'", `'\\''`)}'`,
} as const;

export type EnvFormat = keyof typeof FORMATS;

export const formatted = (environment: Outputs, format: EnvFormat): string =>
  Object.entries(environment)
    .map(([name, value]) => FORMATS[format](name, value))
    .join('\n');

interface Options extends OutputOptions {
  readonly stack?: string;
  readonly outputs?: string;
  readonly scheduler?: string;
  readonly fleet?: string;
  readonly format: EnvFormat;
}

async function environment(options: Options, readStack: ReadStack): Promise<Outputs> {
  const { stack, outputs, scheduler, fleet } = options;
  if (stack === undefined && outputs === undefined) throw new UsageError('name --stack or --outputs');
  const found =
    outputs === undefined
      ? await readStack(stack ?? '')
      : { outputs: outputsIn(outputs, stack), region: undefined };
  const where = outputs === undefined ? `--stack: ${stack}` : `--outputs: ${outputs}`;
  const { [FLEETS]: fleets, ...known } = environmentIn(where, found.outputs, scheduler);
  if (fleet !== undefined && fleets !== undefined) checkFleet(fleet, fleets);
  // The address of a queue on AWS names its region.
  const region = found.region ?? /^https:\/\/sqs\.([a-z0-9-]+)\./.exec(known.FAIRLEAD_WAKE_QUEUE ?? '')?.[1];
  return {
    ...known,
    ...(fleet === undefined ? {} : { FAIRLEAD_FLEET: fleet }),
    ...(region === undefined ? {} : { AWS_REGION: region }),
  };
}

/**
 * Checks that the scheduler has this fleet.
 * @throws UsageError if the scheduler has no fleet of this name
 */
function checkFleet(fleet: string, fleets: string): void {
  const names: unknown = jsonFrom(`the output ${FLEETS}`, fleets);
  if (!Array.isArray(names) || names.includes(fleet)) return;
  throw new UsageError(
    `--fleet: no fleet has the name ${JSON.stringify(fleet)}. ${didYouMean(fleet, names.map(String))}The scheduler has: ${names.join(', ')}`,
  );
}

/** Adds the command to the program. */
export function addEnv(program: Command, { readStack, out }: EnvWriter): void {
  program
    .command('env')
    .description('Print the environment that clients, commands and workers need to reach a scheduler.')
    .option('--stack <name>', 'the CloudFormation stack of the scheduler')
    .option('--outputs <file>', 'the file that `cdk deploy --outputs-file` wrote, instead of --stack')
    .option('--scheduler <id>', 'the id of the construct, if the stack has several schedulers')
    .option('--fleet <fleet>', 'print the environment of a worker of this fleet')
    .addOption(
      new Option('--format <format>', 'output format').choices(['dotenv', 'shell']).default('dotenv'),
    )
    .option('--json', 'print one JSON document')
    .addHelpText('after', '\nExit codes: 0 done; 1 CloudFormation cannot be read; 2 no such scheduler.')
    .action(async (options: Options) => {
      const found = await environment(options, readStack);
      printOutput({ out }, options, { data: { environment: found }, text: formatted(found, options.format) });
    });
}
