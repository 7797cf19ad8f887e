/** A worker function with all recommended settings. */
import { Annotations, Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Architecture, LoggingFormat, SystemLogLevel } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { checkEsbuild } from './esbuild.ts';
import { FUNCTION_BUNDLING, functionRole, RUNTIME, SOURCE_MAPS } from './function.ts';
import { bundlingWithNativeModules, defaultPlatform } from './native-modules.ts';
import { placeOfProject } from './project.ts';
import { toDuration } from './values.ts';
import { checkWorkerFunction, unknownNames, type WorkerFunctionProps } from './worker-function-props.ts';

/**
 * The timeout of a worker function. Its jobs get half a minute less, so that the function can record a timeout before
 * it ends.
 */
const TIMEOUT = Duration.minutes(5);
const MEMORY_MB = 1_024;

/**
 * A Lambda function for a fleet. By default it has Node.js 24 on arm64, a bundle of one file, a timeout of 5 minutes,
 * 1,024 MB, JSON logs that are kept for two weeks, no platform log lines for successful invocations, and a role that may
 * write only these logs. Every prop that you give replaces its default.
 *
 * @example
 * new WorkerFunction(this, 'Images', { entry: 'images.ts', nativeModules: ['sharp'] });
 */
export class WorkerFunction extends NodejsFunction {
  /** @throws ConfigurationError for a misspelt prop */
  constructor(scope: Construct, id: string, props: WorkerFunctionProps) {
    checkWorkerFunction(props);
    const {
      nativeModules = [],
      platform = defaultPlatform(),
      installedIn = process.cwd(),
      timeout,
      ...given
    } = props;
    const architecture = given.architecture ?? Architecture.ARM_64;
    checkEsbuild(scope);
    const logGroup =
      given.logGroup ?? (given.logRetention === undefined ? ownLogs(scope, `${id}Logs`) : undefined);
    // The CDK's default role may write to all logs of the account. Durable functions need more rights, which the CDK
    // knows.
    const isOwnRole = logGroup !== undefined && given.role === undefined && given.durableConfig === undefined;
    super(scope, id, {
      runtime: RUNTIME,
      timeout: timeout === undefined ? TIMEOUT : toDuration(timeout),
      memorySize: MEMORY_MB,
      loggingFormat: LoggingFormat.JSON,
      // Lambda's own lines for each invocation would be half of the log. Those of failed invocations stay.
      ...(given.loggingFormat === LoggingFormat.TEXT || given.systemLogLevel !== undefined
        ? {}
        : { systemLogLevelV2: SystemLogLevel.WARN }),
      ...(logGroup === undefined ? {} : { logGroup }),
      ...(isOwnRole
        ? {
            role: functionRole(scope, `${id}Role`, logGroup, {
              isInVpc: given.vpc !== undefined,
              tracing: given.tracing,
            }),
          }
        : {}),
      ...(given.bundling?.nodeModules === undefined ? placeOfProject(given.entry) : {}),
      ...given,
      architecture,
      environment: { ...SOURCE_MAPS, ...given.environment },
      bundling: {
        ...(nativeModules.length === 0
          ? FUNCTION_BUNDLING
          : bundlingWithNativeModules({ modules: nativeModules, platform, architecture, installedIn })),
        // An emulator's runtime has no SDK.
        ...(platform === 'host' ? { externalModules: [...nativeModules] } : {}),
        ...given.bundling,
      },
    });
    const unknown = unknownNames(props);
    if (unknown.length > 0) {
      Annotations.of(this).addWarningV2(
        'fairlead:unknown-property',
        `WorkerFunction does not know ${unknown.join(', ')}, which is ignored unless the aws-cdk-lib of this app knows it. WorkerFunctionProps lists all props.`,
      );
    }
  }
}

const ownLogs = (scope: Construct, id: string): LogGroup =>
  new LogGroup(scope, id, { retention: RetentionDays.TWO_WEEKS, removalPolicy: RemovalPolicy.DESTROY });
