/** `fairlead dashboard`: serves the dashboard until it is interrupted. */
import type { Command } from 'commander';
import type { AwsSettings } from '../client/aws.ts';
import { ConfigurationError } from '../core/errors.ts';
import { cutToBytes } from '../core/history.ts';
import { type CommonOptions, type Operator, withCommonOptions } from './perform.ts';
import { numberOf, UsageError } from './usage.ts';

/** The command's surroundings. */
export interface DashboardHost extends Operator {
  /** The ARN behind the credentials; undefined: it is not known. */
  readonly callerArn: (credentials?: AwsSettings['credentials']) => Promise<string | undefined>;
  /** A provider of the credentials of a role. */
  readonly roleCredentials: (role: string, name: string) => AwsSettings['credentials'];
  /** The folder of the built page. @default - that of the package */
  readonly pageFolder?: string | undefined;
}

interface Options extends CommonOptions {
  readonly port: string;
  readonly host: string;
  readonly write?: true;
  readonly mask?: readonly string[];
  readonly role?: string;
}

const TOKEN_VARIABLE = 'FAIRLEAD_DASHBOARD_TOKEN';
/** The most bytes of an ARN that fit into a job's history. */
const NAME_BYTES_MAX = 128;

export function addDashboard(program: Command, host: DashboardHost): void {
  withCommonOptions(
    program
      .command('dashboard')
      .description('Serve the dashboard in a browser, with your credentials. See docs/dashboard.md.')
      .option('--port <port>', 'the port to listen at; 0 for a free one', '4310')
      .option(
        '--host <address>',
        `the address to listen at; others than loopback need ${TOKEN_VARIABLE}`,
        '127.0.0.1',
      )
      .option('--role <arn>', 'work with the rights of this role, such as one with `grants.read`')
      .option('--write', 'allow changes: cancel, move, retry, pause, override')
      .option(
        '--mask <name>',
        'hide values of this name as well; repeat it for more',
        (name, before: string[] = []) => [...before, name],
      ),
  ).action((options: Options) => dashboard(options, host));
}

const ROLE = /^arn:aws[\w-]*:iam::\d{12}:role\/\S+$/;

async function dashboard(options: Options, host: DashboardHost): Promise<void> {
  const { signal = new AbortController().signal, pageFolder } = host;
  const port = numberOf('--port', options.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new UsageError(`--port: must be a whole number from 0 to 65535, not ${options.port}`);
  const { role } = options;
  if (role !== undefined && !ROLE.test(role))
    throw new UsageError(
      `--role: must be the ARN of a role, such as arn:aws:iam::111122223333:role/reader, not ${role}`,
    );
  const credentials = role === undefined ? undefined : host.roleCredentials(role, host.actor());
  const { client, close } = await host.connect(options.envFile, credentials);
  try {
    // A role that cannot be assumed is told before anything is served.
    if (typeof credentials === 'function') await credentials();
    // Imported here because other commands serve nothing.
    const { serveDashboard } = await import('../dashboard/server.ts');
    const arn = await host.callerArn(credentials);
    const { link, close: stop } = await serveDashboard({
      client,
      actor: cutToBytes(arn ?? host.actor(), NAME_BYTES_MAX),
      write: options.write === true,
      host: options.host,
      port,
      token: process.env[TOKEN_VARIABLE],
      masked: options.mask,
      pageFolder,
      onError: (error) => host.note(`fairlead: a request failed: ${String(error)}\n`),
    }).catch((error: unknown) => {
      if (!(error instanceof ConfigurationError)) throw error;
      throw new UsageError(
        `${error.field === 'token' ? TOKEN_VARIABLE : `--${error.field}`}: ${error.message}`,
        {
          cause: error,
        },
      );
    });
    if (arn === undefined)
      host.note(`fairlead: STS does not say who you are; changes stand under ${host.actor()}\n`);
    host.out(options.json === true ? `${JSON.stringify({ link })}\n` : `${link}\n`);
    if (!signal.aborted)
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    await stop();
  } finally {
    close();
  }
}
