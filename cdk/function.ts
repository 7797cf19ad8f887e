/** How the scheduler's own functions are built, and how a worker function of yours may be. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import {
  type Architecture,
  type IDestination,
  LoggingFormat,
  type RecursiveLoop,
  Runtime,
} from 'aws-cdk-lib/aws-lambda';
import { type BundlingOptions, LogLevel, NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

/** Node.js 24, as the project is written for it. */
export const RUNTIME = Runtime.NODEJS_24_X;

/** For a function's environment: errors name the source's lines, not the bundle's. */
export const SOURCE_MAPS = { NODE_OPTIONS: '--enable-source-maps' } as const;

/**
 * One small file with everything in it, the AWS SDK too: the version that was tested runs, and it starts faster
 * than the runtime's own copy. Use it for worker functions; see `native-modules.ts` for what cannot be bundled.
 */
export const FUNCTION_BUNDLING = {
  format: OutputFormat.ESM,
  target: 'node24',
  // The packages' ES modules: unused code falls away.
  mainFields: ['module', 'main'],
  externalModules: [],
  minify: true,
  sourceMap: true,
  sourcesContent: false,
  logLevel: LogLevel.ERROR,
  // A warning by default: the code would fail when it gets there.
  esbuildArgs: { '--log-override': ['import-is-undefined=error'] },
  // CommonJS packages in an ES module still ask for `require`.
  banner:
    "import{createRequire as fairleadRequire}from'node:module';const require=fairleadRequire(import.meta.url);",
} as const satisfies BundlingOptions;

export interface SchedulerFunctionProps {
  /** The file in `functions/`, without its extension. */
  readonly entry: string;
  readonly description: string;
  readonly timeout: Duration;
  readonly memorySizeMb: number;
  readonly architecture: Architecture;
  readonly logRetention: RetentionDays;
  readonly recursiveLoop?: RecursiveLoop | undefined;
  /** Of asynchronous invocations. */
  readonly onFailure?: IDestination | undefined;
  readonly retryAttempts?: number | undefined;
  readonly maxEventAge?: Duration | undefined;
}

export function schedulerFunction(
  scope: Construct,
  id: string,
  props: SchedulerFunctionProps,
): NodejsFunction {
  const { entry, memorySizeMb, logRetention, recursiveLoop, onFailure, retryAttempts, maxEventAge, ...rest } =
    props;
  return new NodejsFunction(scope, id, {
    ...rest,
    entry: entryPath(entry),
    handler: 'handler',
    runtime: RUNTIME,
    memorySize: memorySizeMb,
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
    loggingFormat: LoggingFormat.JSON,
    // A group of its own instead of a retention setting: that would deploy one more function to set it.
    logGroup: new LogGroup(scope, `${id}Logs`, {
      retention: logRetention,
      removalPolicy: RemovalPolicy.DESTROY,
    }),
    ...(recursiveLoop === undefined ? {} : { recursiveLoop }),
    ...(onFailure === undefined ? {} : { onFailure }),
    ...(retryAttempts === undefined ? {} : { retryAttempts }),
    ...(maxEventAge === undefined ? {} : { maxEventAge }),
  });
}

function entryPath(entry: string): string {
  const path = fileURLToPath(new URL(`../functions/${entry}.ts`, import.meta.url));
  return existsSync(path) ? path : path.replace(/\.ts$/, '.js');
}
