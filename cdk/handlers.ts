/** The function behind a fleet's queue: any function of Node.js 22 or later, or a version or an alias of one. */

import { Duration, Token } from 'aws-cdk-lib';
import {
  Alias,
  type CfnFunction,
  type IFunction,
  Function as LambdaFunction,
  Runtime,
  RuntimeFamily,
  SingletonFunction,
  Version,
} from 'aws-cdk-lib/aws-lambda';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { toDuration } from './values.ts';

/** The timeout of a function that sets none. */
const LAMBDA_DEFAULT_TIMEOUT = Duration.seconds(3);

/** The oldest version of Node.js that runs handlers: it introduced `Promise.withResolvers` and `Map.groupBy`. */
const NODE_MIN = 22;

/** A handler, as far as this app knows it. */
export interface Handler {
  /** The function that gets the event source; for an alias, the alias. */
  readonly function: IFunction;
  /** The function itself if this app creates it, for its environment. */
  readonly own: LambdaFunction | undefined;
  readonly timeout: Duration;
  /** Whether the function has Lambda's default timeout, because none was set. */
  readonly isTimeoutDefault: boolean;
}

export interface HandlerInput {
  readonly handler?: IFunction | Version | Alias | undefined;
  readonly handlerTimeout?: DurationInput | undefined;
}

/**
 * Returns the handler of a fleet; undefined if it has none.
 * @throws ConfigurationError for a handler that cannot run jobs, or whose timeout is unknown
 */
export function handlerOf(fleet: string, { handler, ...given }: HandlerInput): Handler | undefined {
  const handlerTimeout = given.handlerTimeout === undefined ? undefined : toDuration(given.handlerTimeout);
  if (handler === undefined) {
    if (handlerTimeout === undefined) return undefined;
    throw new ConfigurationError(
      `fleets.${fleet}.handlerTimeout`,
      handlerTimeout.toHumanString(),
      'says how long the handler may run, but the fleet has no handler',
      'Add the handler, or leave handlerTimeout out.',
    );
  }
  const own = functionBehind(handler);
  if (own !== undefined) {
    checkRuntime(fleet, own.runtime);
    checkLogLevel(fleet, own);
  }
  checkHandlerTimeout(fleet, handlerTimeout, own?.timeout);
  const known = handlerTimeout ?? own?.timeout;
  if (known?.isUnresolved()) {
    throw new ConfigurationError(
      `fleets.${fleet}.handlerTimeout`,
      'a token',
      'must be known when the app is synthesised, because the timeout of jobs follows from it',
      "Write the function's timeout as a Duration, or give its longest value as handlerTimeout.",
    );
  }
  if (own === undefined && known === undefined) {
    throw new ConfigurationError(
      `fleets.${fleet}.handlerTimeout`,
      undefined,
      'is required for a function that this app does not create: its timeout is unknown here, and jobs must end before it',
      "Give the function's timeout: handlerTimeout: '5m'.",
    );
  }
  return {
    // The types of aws-cdk-lib are looser than ours about absent properties.
    function: handler as IFunction,
    own,
    timeout: known ?? LAMBDA_DEFAULT_TIMEOUT,
    isTimeoutDefault: known === undefined,
  };
}

/** The longest timeout of a Lambda function. */
const LAMBDA_MAX_TIMEOUT = Duration.minutes(15);

/** Returns the timeout of a handler. The function's own decides if it is known, because Lambda ends an attempt then. */
function checkHandlerTimeout(fleet: string, said: Duration | undefined, own: Duration | undefined): void {
  if (said === undefined || said.isUnresolved()) return;
  const field = `fleets.${fleet}.handlerTimeout`;
  if (own !== undefined && !own.isUnresolved() && own.toMilliseconds() !== said.toMilliseconds()) {
    throw new ConfigurationError(
      field,
      said.toHumanString(),
      `is not the timeout of the function, which Lambda ends after ${own.toHumanString()}`,
      'Leave handlerTimeout out: it is for functions that this app does not create.',
    );
  }
  if (said.toMilliseconds() <= LAMBDA_MAX_TIMEOUT.toMilliseconds()) return;
  throw new ConfigurationError(
    field,
    said.toHumanString(),
    'is longer than 15 minutes, the longest timeout of a function',
    "Give the function's own timeout.",
  );
}

/** Returns the function if this app creates it; undefined for an imported one. */
function functionBehind(handler: IFunction | Version | Alias): LambdaFunction | undefined {
  if (handler instanceof LambdaFunction) return handler;
  if (handler instanceof Alias) return functionBehind(handler.version.lambda);
  if (handler instanceof Version) return functionBehind(handler.lambda);
  if (handler instanceof SingletonFunction) {
    const { scope, id } = handler.permissionsNode;
    const shared = scope?.node.tryFindChild(id);
    return shared instanceof LambdaFunction ? shared : undefined;
  }
  return undefined;
}

/**
 * Log levels at which Lambda drops lines of level INFO. Lambda takes lines without a level, such as metrics, for INFO
 * (its guide, "Log-level filtering").
 */
const DROPPING = ['WARN', 'ERROR', 'FATAL'];

function checkLogLevel(fleet: string, own: LambdaFunction): void {
  const { loggingConfig } = own.node.defaultChild as CfnFunction;
  if (loggingConfig === undefined || !('applicationLogLevel' in loggingConfig)) return;
  const { applicationLogLevel: level = '' } = loggingConfig;
  if (!DROPPING.includes(level)) return;
  throw new ConfigurationError(
    `fleets.${fleet}.handler`,
    level,
    'is a log level at which Lambda drops the metrics of the fleet, which are log lines of level INFO for Lambda',
    `Leave out applicationLogLevelV2, and set POWERTOOLS_LOG_LEVEL: '${level === 'FATAL' ? 'CRITICAL' : level}' in the function's environment: it applies to Fairlead's own lines, and keeps metrics.`,
  );
}

function checkRuntime(fleet: string, runtime: Runtime): void {
  // Images and custom runtimes bring their own Node.js. The newest runtime of a Region is a token.
  const isOpaque = runtime.name === Runtime.FROM_IMAGE.name || runtime.name.startsWith('provided');
  if (isOpaque || Token.isUnresolved(runtime.name)) return;
  const version = /^nodejs(\d+)/.exec(runtime.name)?.[1];
  if (runtime.family !== RuntimeFamily.NODEJS || version === undefined) {
    throw new ConfigurationError(
      `fleets.${fleet}.handler`,
      runtime.name,
      'is not a runtime of Node.js, but a handler must be made by `worker()` of fairlead/worker',
      'Use WorkerFunction, or a runtime of Node.js 22 or later.',
    );
  }
  if (Number(version) >= NODE_MIN) return;
  throw new ConfigurationError(
    `fleets.${fleet}.handler`,
    runtime.name,
    `runs Node.js ${version}, but workers need ${NODE_MIN} or later and would fail at their first job`,
    'Set runtime: Runtime.NODEJS_24_X, or use WorkerFunction. (Without the feature flags of `cdk init`, NodejsFunction takes Node.js 16.)',
  );
}
