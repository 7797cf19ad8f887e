/** `fairlead mcp`: the scheduler as tools for agents, over standard input and output. */
import type { Readable, Writable } from 'node:stream';
import type { Command } from 'commander';
import { type CommonOptions, type Operator, withCommonOptions } from './perform.ts';

/** The command's surroundings. */
export interface McpHost extends Operator {
  readonly version: string;
  /** The streams that the client writes to and reads from. @default - the process's standard streams */
  readonly streams?: { readonly input: Readable; readonly output: Writable } | undefined;
}

interface Options extends CommonOptions {
  readonly write?: true;
  readonly mask?: readonly string[];
}

export function addMcp(program: Command, host: McpHost): void {
  withCommonOptions(
    program
      .command('mcp')
      .description(
        'Serve the scheduler to an agent by the Model Context Protocol, over standard input and output.',
      )
      .option('--write', 'allow changes: submit, cancel, move, retry, pause, override')
      .option(
        '--mask <name>',
        'hide values of this name as well; repeat it for more',
        (name, before: string[] = []) => [...before, name],
      ),
  ).action((options: Options) => serve(options, host));
}

async function serve(options: Options, host: McpHost): Promise<void> {
  const { signal, streams = { input: process.stdin, output: process.stdout } } = host;
  const { client, close } = await host.connect(options.envFile);
  try {
    // Imported here because other commands need no tools.
    const [{ mcpServer }, { serveStdio, StdioServerTransport }] = await Promise.all([
      import('../mcp/server.ts'),
      import('../mcp/sdk.ts'),
    ]);
    const onError = (error: unknown): void => host.note(`fairlead: a request failed: ${String(error)}\n`);
    const make = () =>
      mcpServer({
        client,
        actor: host.actor(),
        write: options.write,
        masked: options.mask,
        version: host.version,
        onError,
      });
    const ended = Promise.withResolvers<void>();
    for (const event of ['end', 'close'] as const) streams.input.once(event, () => ended.resolve());
    signal?.addEventListener('abort', () => ended.resolve(), { once: true });
    const served = serveStdio(make, {
      transport: new StdioServerTransport(streams.input, streams.output),
      onerror: onError,
    });
    await ended.promise;
    await served.close();
  } finally {
    close();
  }
}
