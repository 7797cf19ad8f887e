/** A worker function with everything set that it needs to do well: for whoever does not want to think about it. */
import { Annotations, Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Architecture, LoggingFormat, SystemLogLevel } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { checkEsbuild } from './esbuild.ts';
import { FUNCTION_BUNDLING, functionRole, RUNTIME, SOURCE_MAPS } from './function.ts';
import { bundlingWithNativeModules, defaultPlatform } from './native-modules.ts';
import { placeOfProject } from './project.ts';
import { checkWorkerFunction, unknownNames, type WorkerFunctionProps } from './worker-function-props.ts';

/** Its jobs have half a minute less: the function records that a job was too slow before it ends. */
const TIMEOUT = Duration.minutes(5);
const MEMORY_MB = 1_024;

/**
 * A function for a fleet: Node.js 24 on arm64, one file with everything in it, 5 minutes, 1,024 MB, logs as JSON that are
 * kept for two weeks, without Lambda's own lines of invocations that end well, and a role that may write these. Whatever is given wins.
 *
 * @example
 * new WorkerFunction(this, 'Images', { entry: 'images.ts', nativeModules: ['sharp'] });
 */
export class WorkerFunction extends NodejsFunction {
  /** @throws ConfigurationError for a property that is misspelt */
  constructor(scope: Construct, id: string, props: WorkerFunctionProps) {
    checkWorkerFunction(props);
    const { nativeModules = [], platform = defaultPlatform(), installedIn = process.cwd(), ...given } = props;
    const architecture = given.architecture ?? Architecture.ARM_64;
    checkEsbuild(scope);
    const logGroup =
      given.logGroup ?? (given.logRetention === undefined ? ownLogs(scope, `${id}Logs`) : undefined);
    // The library's own role may write the logs of the whole account; what a durable function needs is known to the library.
    const isOwnRole = logGroup !== undefined && given.role === undefined && given.durableConfig === undefined;
    super(scope, id, {
      runtime: RUNTIME,
      timeout: TIMEOUT,
      memorySize: MEMORY_MB,
      loggingFormat: LoggingFormat.JSON,
      // Lambda's own lines of each invocation would be half of what is logged; of those that fail, they stay.
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
        ...given.bundling,
      },
    });
    const unknown = unknownNames(props);
    if (unknown.length > 0) {
      Annotations.of(this).addWarningV2(
        'fairlead:unknown-property',
        `WorkerFunction does not know ${unknown.join(', ')}: unless the aws-cdk-lib of this app does, it is left out. See WorkerFunctionProps for what there is.`,
      );
    }
  }
}

const ownLogs = (scope: Construct, id: string): LogGroup =>
  new LogGroup(scope, id, { retention: RetentionDays.TWO_WEEKS, removalPolicy: RemovalPolicy.DESTROY });
