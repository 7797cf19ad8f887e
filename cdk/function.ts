/** Builds the scheduler's own functions. Worker functions may use the same settings. */
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

/** Node.js 24, the version for which the project is written. */
export const RUNTIME = Runtime.NODEJS_24_X;

/** Environment of a function whose errors show lines of the source instead of the bundle. */
export const SOURCE_MAPS = { NODE_OPTIONS: '--enable-source-maps' } as const;

/**
 * The client of S3, a sixth of a bundle, which is loaded only for values over 64 KB. Lambda's runtime has a copy of it;
 * emulators have none.
 */
export const S3_CLIENT = '@aws-sdk/client-s3';

/**
 * Bundling options for one small file with all dependencies, including the AWS SDK but for the client of S3. The tested
 * version of the SDK runs, and it starts faster than the runtime's copy. Use them for worker functions; `native-modules.ts` handles packages that
 * cannot be bundled.
 */
export const FUNCTION_BUNDLING = {
  format: OutputFormat.ESM,
  target: 'node24',
  // ES modules are preferred, because esbuild removes their unused code.
  mainFields: ['module', 'main'],
  externalModules: [S3_CLIENT],
  minify: true,
  sourceMap: true,
  sourcesContent: false,
  logLevel: LogLevel.ERROR,
  // esbuild only warns by default, but the code would fail at run time.
  esbuildArgs: { '--log-override': ['import-is-undefined=error'] },
  // CommonJS packages in an ES module still call `require`.
  banner:
    "import{createRequire as fairleadRequire}from'node:module';const require=fairleadRequire(import.meta.url);",
} as const satisfies BundlingOptions;

/** Settings of all of the scheduler's own functions. */
export interface FunctionSettings {
  readonly architecture: Architecture;
  /** X-Ray tracing. @default - none */
  readonly tracing?: Tracing | undefined;
  readonly logRetention: RetentionDays;
  readonly encryptionKey?: IKey | undefined;
  /** The network of the functions. @default - no VPC */
  readonly network?: NetworkOptions | undefined;
}

/**
 * A VPC for the scheduler's own functions. They need routes to DynamoDB, SQS, EventBridge and CloudWatch Logs, and to S3
 * for deployments.
 */
export interface NetworkOptions {
  readonly vpc: IVpc;
  /**
   * The subnets of the functions.
   * @default - the private subnets with egress
   */
  readonly subnets?: SubnetSelection | undefined;
  /**
   * The security groups of the functions.
   * @default - one for each function, which allows all outbound traffic
   */
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
}

export interface SchedulerFunctionProps extends FunctionSettings {
  /** The name of the file in `functions/`, without its extension. */
  readonly entry: string;
  readonly description: string;
  readonly timeout: Duration;
  readonly memorySizeMb: number;
  /** Whether it reads or writes objects. @default false */
  readonly usesObjects?: boolean | undefined;
  /**
   * The log group of the function.
   * @default - a new one, with `logRetention`
   */
  readonly logGroup?: ILogGroup | undefined;
  readonly reservedConcurrency?: number | undefined;
  /** Where failed asynchronous invocations go. */
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
    bundling: props.usesObjects === true ? { ...FUNCTION_BUNDLING, externalModules: [] } : FUNCTION_BUNDLING,
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

/** Returns the function's log group. A retention setting in its place would deploy one more function. */
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
 * The rights that Lambda needs from the role of a function in a VPC (its guide, "Giving Lambda functions access to
 * resources in an Amazon VPC"). AWS's managed policies do not fit: one includes the logs of the whole account, the other
 * lacks the last of these rights.
 */
const IN_VPC = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
  'ec2:DescribeSubnets',
];

/** Returns a role that may write the function's own logs. AWS's managed policy would allow all logs of the account. */
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
  // The function grants itself the rights for tracing.
  if (tracing !== Tracing.DISABLED) acknowledge(role, 'traces');
  return role;
}

/**
 * Returns the props without undefined values, because the types of aws-cdk-lib are looser than ours about absent
 * properties.
 */
function definedOf<Props extends object>(
  props: Props,
): { [Key in keyof Props]?: Exclude<Props[Key], undefined> } {
  const defined = Object.entries(props).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as { [Key in keyof Props]?: Exclude<Props[Key], undefined> };
}

/**
 * Returns the path of a function's file, as seen from the sources, from the package's ES modules, or from its CommonJS
 * modules, which are one folder deeper.
 */
function entryPath(entry: string): string {
  const [path] = [`../functions/${entry}.ts`, `../functions/${entry}.js`, `../../functions/${entry}.js`]
    .map((relative) => fileURLToPath(new URL(relative, import.meta.url)))
    .filter(existsSync);
  if (path === undefined) throw new Error(`the package is incomplete: it has no function ${entry}`);
  return path;
}
