/** How the scheduler's own functions are built, and how a worker function of yours may be. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  type Architecture,
  type IDestination,
  LoggingFormat,
  Runtime,
  SystemLogLevel,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import {
  type BundlingOptions,
  LogLevel,
  NodejsFunction,
  type NodejsFunctionProps,
  OutputFormat,
} from 'aws-cdk-lib/aws-lambda-nodejs';
import { type ILogGroup, LogGroup, LogGroupGrants, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledge } from './acknowledged.ts';
import { checkEsbuild } from './esbuild.ts';
import { placeOfProject } from './project.ts';

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

/** What all of the scheduler's own functions have in common. */
export interface FunctionSettings {
  readonly architecture: Architecture;
  /** @default - none */
  readonly tracing?: Tracing | undefined;
  readonly logRetention: RetentionDays;
  readonly encryptionKey?: IKey | undefined;
  /** @default - in no network of yours */
  readonly network?: NetworkOptions | undefined;
}

/** Where the scheduler's own functions stand. They need a way to DynamoDB, SQS, EventBridge, and S3 for deployments. */
export interface NetworkOptions {
  readonly vpc: IVpc;
  /** @default - the private ones with a way out */
  readonly subnets?: SubnetSelection | undefined;
  /** @default - one for each function, which lets everything out */
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
}

export interface SchedulerFunctionProps extends FunctionSettings {
  /** The file in `functions/`, without its extension. */
  readonly entry: string;
  readonly description: string;
  readonly timeout: Duration;
  readonly memorySizeMb: number;
  /** @default - a group of its own, which forgets after `logRetention` */
  readonly logGroup?: ILogGroup | undefined;
  readonly reservedConcurrency?: number | undefined;
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
  const { network } = props;
  checkEsbuild(scope);
  const logGroup = props.logGroup ?? ownLogGroup(scope, `${id}Logs`, props);
  const entry = entryPath(props.entry);
  return new NodejsFunction(scope, id, {
    entry,
    ...placeOfProject(entry),
    handler: 'handler',
    description: props.description,
    timeout: props.timeout,
    memorySize: props.memorySizeMb,
    architecture: props.architecture,
    runtime: RUNTIME,
    role: functionRole(scope, `${id}Role`, logGroup, {
      isInVpc: network !== undefined,
      tracing: props.tracing,
    }),
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
    loggingFormat: LoggingFormat.JSON,
    systemLogLevelV2: SystemLogLevel.WARN,
    logGroup,
    ...definedOf({
      tracing: props.tracing,
      reservedConcurrentExecutions: props.reservedConcurrency,
      onFailure: props.onFailure,
      retryAttempts: props.retryAttempts,
      maxEventAge: props.maxEventAge,
      vpc: network?.vpc,
      vpcSubnets: network?.subnets,
      securityGroups: network?.securityGroups === undefined ? undefined : [...network.securityGroups],
    }),
  });
}

/** A group of its own instead of a retention setting: that would deploy one more function to set it. */
function ownLogGroup(
  scope: Construct,
  id: string,
  { logRetention, encryptionKey }: FunctionSettings,
): LogGroup {
  return new LogGroup(scope, id, {
    retention: logRetention,
    removalPolicy: RemovalPolicy.DESTROY,
    ...(encryptionKey === undefined ? {} : { encryptionKey }),
  });
}

/**
 * What Lambda asks of the role of a function in a VPC (its guide, "Giving Lambda functions access to resources in an Amazon VPC"). Of AWS's managed
 * policies, one lets it write the logs of the whole account beside, and the other lacks the last of these.
 */
const IN_VPC = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
  'ec2:DescribeSubnets',
];

/** May write its own logs, not those of the whole account as with AWS's managed policy. */
export function functionRole(
  scope: Construct,
  id: string,
  logGroup: NonNullable<NodejsFunctionProps['logGroup']>,
  {
    isInVpc,
    tracing = Tracing.DISABLED,
  }: { readonly isInVpc: boolean; readonly tracing?: Tracing | undefined },
): Role {
  const role = new Role(scope, id, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  LogGroupGrants.fromLogGroup(logGroup).write(role);
  if (isInVpc) {
    role.addToPolicy(new PolicyStatement({ actions: IN_VPC, resources: ['*'] }));
    acknowledge(role, 'vpcAccess');
  }
  // The function itself grants it.
  if (tracing !== Tracing.DISABLED) acknowledge(role, 'traces');
  return role;
}

/** What is there: the library's own types are looser than ours about absent properties. */
function definedOf<Props extends object>(
  props: Props,
): { [Key in keyof Props]?: Exclude<Props[Key], undefined> } {
  const defined = Object.entries(props).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as { [Key in keyof Props]?: Exclude<Props[Key], undefined> };
}

/** In the sources, in the package's ES modules, and as its CommonJS modules, which stand one folder deeper, see them. */
function entryPath(entry: string): string {
  const [path] = [`../functions/${entry}.ts`, `../functions/${entry}.js`, `../../functions/${entry}.js`]
    .map((relative) => fileURLToPath(new URL(relative, import.meta.url)))
    .filter(existsSync);
  if (path === undefined) throw new Error(`the package is incomplete: it has no function ${entry}`);
  return path;
}
