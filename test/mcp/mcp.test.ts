/** `fairlead mcp`, spoken to by the client of the MCP SDK over standard input and output. */
import { resolve } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, it, onTestFinished } from 'vitest';
import { OPERATIONS } from '../../lib/http/operations.ts';
import { argumentsOf, toolsFor } from '../../lib/mcp/server.ts';

async function agent(...flags: readonly string[]) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [resolve(import.meta.dirname, 'process.ts'), ...flags],
    stderr: 'pipe',
  });
  let said = '';
  transport.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  const call = async (name: string, given: Record<string, unknown> = {}) => {
    const { isError = false, structuredContent, content } = await client.callTool({ name, arguments: given });
    expect(content).toEqual([{ type: 'text', text: JSON.stringify(structuredContent) }]);
    // Tests read what they expect.
    return { isError, answer: structuredContent as Readonly<Record<string, { readonly id?: string }>> };
  };
  const idOf = async (idempotencyKey: string): Promise<string> =>
    String((await call('find', { idempotencyKey })).answer.job?.id);
  return { client, call, idOf, said: () => said };
}

describe('an agent', () => {
  it('finds a waiting job, learns why it waits, and sees no secret', async () => {
    const { call, idOf, client } = await agent();
    expect(client.getInstructions()).toContain('explain');
    const id = await idOf('waits');
    const { answer } = await call('explain', { id });
    const holder = await idOf('holder');
    expect(JSON.stringify(answer)).toContain(holder);
    const supposed = { scope: { type: 'resize' }, paused: true };
    const { isError, answer: paused } = await call('explain', { id, if: supposed });
    expect({ isError, same: paused }).toEqual({
      isError: false,
      same: (await call('explain', { id, if: JSON.stringify(supposed) })).answer,
    });
    expect(JSON.stringify(paused)).toContain('"why":"paused"');
    const { answer: listed } = await call('list', { state: 'pending', tags: { order: '4711' } });
    expect(listed).toMatchObject({ jobs: [{ id, fairnessKey: 'acme' }] });
    const got = JSON.stringify((await call('get', { id })).answer);
    expect(got).toContain('"page":1');
    expect(got).not.toContain('sk-live-123');
    const { answer: dead } = await call('deadLetters');
    const [{ id: failed = '' } = {}] = dead.jobs as unknown as readonly { readonly id?: string }[];
    for (const name of ['history', 'wait'])
      expect({ name, isError: (await call(name, { id: failed })).isError }).toEqual({ name, isError: false });
    for (const name of [
      'keys',
      'capacity',
      'fleets',
      'locks',
      'statistics',
      'deadLetters',
      'controls',
      'types',
    ])
      expect({ name, isError: (await call(name)).isError }).toEqual({ name, isError: false });
  });

  it('has no tool that changes anything unless it was told to', async () => {
    const { client, call } = await agent();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).toSorted()).toEqual(
      OPERATIONS.filter(({ roles }) => roles.includes('read'))
        .map(({ id }) => id)
        .toSorted(),
    );
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
    await expect(call('pause', { scope: 'pool' })).rejects.toThrow(/pause/);
  });

  it('with --write changes jobs in the user’s name', async () => {
    const { call, idOf, client } = await agent('--write');
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(OPERATIONS.length);
    expect(tools.find(({ name }) => name === 'pause')?.annotations?.readOnlyHint).toBe(false);
    const id = await idOf('waits');
    expect((await call('cancel', { id })).answer).toMatchObject({ outcome: 'cancelled' });
    expect(JSON.stringify((await call('history', { id })).answer)).toContain('"by":"ada"');
    const { answer } = await call('submit', { type: 'report', payload: { month: 3 }, runAt: '+1h' });
    expect(answer).toMatchObject({ job: { state: 'scheduled' } });
    expect(
      (await call('putSchedule', { id: 'nightly', type: 'report', cron: '0 2 * * *' })).answer,
    ).toMatchObject({
      outcome: 'created',
    });
    expect(
      (await call('override', { scope: { type: 'report' }, change: { maxConcurrency: 2 } })).isError,
    ).toBe(false);
  });

  it('is told what is wrong with a call as over HTTP', async () => {
    const { call } = await agent();
    for (const [name, given, problem] of [
      ['explain', { id: 'none' }, { title: 'NotFoundError', status: 404 }],
      ['list', { state: 'lost' }, { title: 'ValidationError', field: 'state' }],
      ['list', { state: 'pending', limit: 5_000 }, { title: 'ValidationError', field: 'limit' }],
      ['list', { state: 'pending', nothing: 1 }, { title: 'ValidationError', field: 'nothing' }],
    ] as const)
      expect(await call(name, given)).toMatchObject({ isError: true, answer: problem });
  });

  it('is told that a call names no id', async () => {
    const { call } = await agent();
    for (const given of [{}, { id: '' }])
      expect(await call('get', given)).toMatchObject({
        isError: true,
        answer: { title: 'ValidationError', field: 'id', detail: expect.stringContaining('is missing') },
      });
  });

  it('ends with its client, and closes its connections', async () => {
    const { client, said } = await agent();
    await client.close();
    await expect.poll(said).toContain('closed');
  });
});

it('describes the arguments of each tool by the schemas of its operation', async () => {
  const { client } = await agent('--write');
  const { tools } = await client.listTools();
  for (const operation of toolsFor(true)) {
    const tool = tools.find(({ name }) => name === operation.id);
    const names = Object.keys(argumentsOf(operation).shape);
    expect(Object.keys(tool?.inputSchema.properties ?? {}).toSorted()).toEqual(names.toSorted());
    expect(tool?.inputSchema.required?.includes('id') ?? false).toBe(operation.path.includes('{id}'));
    expect(tool?.description).toBe(operation.summary);
  }
});
