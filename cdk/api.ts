/** The HTTP protocol behind function URLs that only IAM lets in: one for each role. */
import { Duration } from 'aws-cdk-lib';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Alias, type FunctionUrl, FunctionUrlAuthType } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { API_ROLES, type ApiRole } from '../lib/core/api-roles.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import type { SchedulerGrants } from './grants.ts';

/** The function's timeout, longer than any wait of one request. */
const TIMEOUT = Duration.seconds(60);

export interface ApiProps {
  readonly functions: FunctionSettings;
  /** Whether jobs may have values over 64 KB. */
  readonly usesObjects: boolean;
  readonly grants: SchedulerGrants;
  readonly environment: Readonly<Record<string, string>>;
  readonly reservedConcurrency?: number | undefined;
  readonly logGroup?: ILogGroup | undefined;
}

export class Api extends Construct {
  readonly function: NodejsFunction;
  readonly #urls: ReadonlyMap<ApiRole, FunctionUrl>;

  constructor(scope: Construct, id: string, props: ApiProps) {
    super(scope, id);
    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'api',
      description: 'Serves the HTTP protocol',
      timeout: TIMEOUT,
      memorySizeMb: 512,
      reservedConcurrency: props.reservedConcurrency,
      logGroup: props.logGroup,
      usesObjects: props.usesObjects,
    });
    for (const [name, value] of Object.entries(props.environment)) this.function.addEnvironment(name, value);
    props.grants.submit(this.function);
    props.grants.operate(this.function);
    // IAM cannot tell paths of a function URL apart, so each role has a URL, and the function knows it by its alias.
    this.#urls = new Map(
      API_ROLES.map((role) => {
        const alias = new Alias(this, `For-${role}`, {
          aliasName: role,
          version: this.function.latestVersion,
          description: `Serves callers of the role ${role}`,
        });
        return [role, alias.addFunctionUrl({ authType: FunctionUrlAuthType.AWS_IAM })];
      }),
    );
  }

  /** Where the API is for callers of a role. They sign their requests for the service `lambda`, as the client does. */
  url(role: ApiRole): string {
    return this.#of(role).url;
  }

  /**
   * Lets a caller do by HTTP what `grants.read`, `grants.submit` or `grants.operate` of the scheduler would let it do by itself, through the
   * URL of that role.
   */
  grantCall(grantee: IGrantable, role: ApiRole): Grant {
    return this.#of(role).grantInvokeUrl(grantee);
  }

  #of(role: ApiRole): FunctionUrl {
    const url = this.#urls.get(role);
    if (url === undefined)
      throw new ConfigurationError('role', role, `is none of ${API_ROLES.join(', ')}`, 'Choose one of them.');
    return url;
  }
}
