/** The props of a `WorkerFunction`: those of the CDK's `NodejsFunction`, of its bundling, and our own. */

import { Token } from 'aws-cdk-lib';
import { SubnetType } from 'aws-cdk-lib/aws-ec2';
import type { VersionOptions } from 'aws-cdk-lib/aws-lambda';
import type { BundlingOptions, NodejsFunctionProps } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, wholeWithin } from '../lib/core/read-fields.ts';
import { checkPlatform, type Platform } from './native-modules.ts';
import {
  checkedElsewhere,
  checkText,
  having,
  libraryNames,
  libraryObjectOf,
  listOf,
  oneOf,
  toDuration,
  unknownTo,
} from './values.ts';

export interface WorkerFunctionProps extends Omit<NodejsFunctionProps, 'entry' | 'timeout'> {
  /** The file that exports `handler`, which `worker()` of fairlead/worker made. Required. */
  readonly entry: string;
  /**
   * How long an invocation may run, up to 15 minutes. Its jobs get a tenth less, but at most half a minute less, so that
   * the function can record a timeout before it ends.
   * @default '5m'
   */
  readonly timeout?: DurationInput;
  /**
   * Packages with native code that the file imports, such as `sharp`. They are packed beside the bundle.
   * @default - none
   */
  readonly nativeModules?: readonly string[];
  /**
   * The platform for which native modules are packed.
   * @default - `host` if AWS_ENDPOINT_URL is set, as for a local emulator; otherwise `lambda`
   */
  readonly platform?: Platform;
  /**
   * The folder where the native modules are installed: in its `node_modules`, or in that of a parent folder.
   * @default - the current folder
   */
  readonly installedIn?: string;
}

/** Checks a `SubnetSelection`. */
export const checkSubnets = libraryObjectOf({
  subnetType: oneOf(SubnetType, 'a SubnetType'),
  availabilityZones: listOf(checkText),
  subnetGroupName: checkText,
  subnetName: checkText,
  onePerAz: checkedElsewhere,
  subnetFilters: listOf(having('selectSubnets', 'a SubnetFilter')),
  subnets: listOf(having('subnetId', 'a subnet')),
});

const BUNDLING_NAMES = libraryNames({
  assetHash: true,
  banner: true,
  buildArgs: true,
  bundleAwsSDK: true,
  bundlingFileAccess: true,
  charset: true,
  command: true,
  commandHooks: true,
  define: true,
  dockerImage: true,
  entrypoint: true,
  environment: true,
  esbuildArgs: true,
  esbuildVersion: true,
  externalModules: true,
  footer: true,
  forceDockerBundling: true,
  format: true,
  inject: true,
  keepNames: true,
  loader: true,
  logLevel: true,
  mainFields: true,
  metafile: true,
  minify: true,
  network: true,
  nodeModules: true,
  platform: true,
  preCompilation: true,
  securityOpt: true,
  sourceMap: true,
  sourceMapMode: true,
  sourcesContent: true,
  target: true,
  tsconfig: true,
  user: true,
  volumes: true,
  volumesFrom: true,
  workingDirectory: true,
} satisfies Readonly<Record<keyof BundlingOptions, true>>);

const VERSION_NAMES = libraryNames({
  codeSha256: true,
  description: true,
  maxEventAge: true,
  maxExecutionEnvironments: true,
  minExecutionEnvironments: true,
  onFailure: true,
  onSuccess: true,
  provisionedConcurrentExecutions: true,
  removalPolicy: true,
  retryAttempts: true,
} satisfies Readonly<Record<keyof VersionOptions, true>>);

/** The names of all props of `NodejsFunction` in this version of aws-cdk-lib. */
const LIBRARY_NAMES = libraryNames({
  adotInstrumentation: true,
  allowAllIpv6Outbound: true,
  allowAllOutbound: true,
  allowPublicSubnet: true,
  applicationLogLevel: true,
  applicationLogLevelV2: true,
  architecture: true,
  awsSdkConnectionReuse: true,
  bundling: true,
  code: true,
  codeSigningConfig: true,
  currentVersionOptions: true,
  deadLetterQueue: true,
  deadLetterQueueEnabled: true,
  deadLetterTopic: true,
  depsLockFilePath: true,
  description: true,
  durableConfig: true,
  entry: true,
  environment: true,
  environmentEncryption: true,
  ephemeralStorageSize: true,
  events: true,
  filesystem: true,
  functionName: true,
  handler: true,
  initialPolicy: true,
  insightsVersion: true,
  ipv6AllowedForDualStack: true,
  layers: true,
  logFormat: true,
  logGroup: true,
  logRemovalPolicy: true,
  logRetention: true,
  logRetentionRetryOptions: true,
  logRetentionRole: true,
  loggingFormat: true,
  maxEventAge: true,
  memorySize: true,
  onFailure: true,
  onSuccess: true,
  paramsAndSecrets: true,
  profiling: true,
  profilingGroup: true,
  projectRoot: true,
  recursiveLoop: true,
  reservedConcurrentExecutions: true,
  retryAttempts: true,
  role: true,
  runtime: true,
  runtimeManagementMode: true,
  securityGroups: true,
  snapStart: true,
  systemLogLevel: true,
  systemLogLevelV2: true,
  tenancyConfig: true,
  timeout: true,
  tracing: true,
  vpc: true,
  vpcSubnets: true,
} satisfies Readonly<Record<keyof NodejsFunctionProps, true>>);

const PROPS: Readonly<Record<keyof WorkerFunctionProps, Check>> = {
  ...LIBRARY_NAMES,
  bundling: libraryObjectOf(BUNDLING_NAMES),
  currentVersionOptions: libraryObjectOf(VERSION_NAMES),
  vpcSubnets: checkSubnets,
  entry: checkText,
  nativeModules: listOf(checkText),
  platform: checkPlatform,
  installedIn: checkText,
};

/** Checks the memory, in MB, by Lambda's bounds. */
const checkMemory = wholeWithin(128, 10_240, 'Leave it out for 1,024.');
const LAMBDA_SECONDS_MAX = 900;

/**
 * Checks the props of a worker function.
 * @throws ConfigurationError for a misspelt prop, and for one of our own that is missing or impossible
 */
export function checkWorkerFunction(props: WorkerFunctionProps): void {
  libraryObjectOf(PROPS)('', props);
  checkText('entry', props.entry);
  const { memorySize } = props;
  const timeout = props.timeout === undefined ? undefined : toDuration(props.timeout, 'timeout');
  if (memorySize !== undefined && !Token.isUnresolved(memorySize)) checkMemory('memorySize', memorySize);
  if (timeout !== undefined && !timeout.isUnresolved() && timeout.toSeconds() > LAMBDA_SECONDS_MAX)
    throw new ConfigurationError(
      'timeout',
      `${timeout.toSeconds()} s`,
      'is longer than a function may run',
      'A function has at most 15 minutes; run longer jobs in processes (runFleetWorker).',
    );
}

/** Returns the names of props that this version of aws-cdk-lib does not have. A later version may have them. */
export const unknownNames = ({ bundling = {}, ...props }: WorkerFunctionProps): readonly string[] => [
  ...unknownTo(PROPS, props),
  ...unknownTo(BUNDLING_NAMES, bundling).map((name) => `bundling.${name}`),
];
