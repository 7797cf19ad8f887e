/** The API function: a signed request of a function URL is a call of the protocol, in the caller's name. */
import { expect, it } from 'vitest';
import { serving } from '../../functions/api.ts';
import { desk } from '../client/desk.ts';

const ARN = 'arn:aws:sts::111122223333:assumed-role/operators/ada';

const signed = (method: string, path: string, body?: unknown, userArn: string | undefined = ARN) =>
  ({
    version: '2.0',
    rawPath: path.split('?')[0],
    rawQueryString: path.split('?')[1] ?? '',
    headers: { 'content-type': 'application/json', 'fairlead-actor': 'somebody else' },
    requestContext: {
      domainName: 'url.invalid',
      http: { method, path, protocol: 'HTTP/1.1', sourceIp: '', userAgent: '' },
      authorizer: { iam: { userArn } },
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    isBase64Encoded: false,
  }) as unknown as Parameters<ReturnType<typeof serving>>[0];

const invokedBy = (alias: string) =>
  ({
    invokedFunctionArn: `arn:aws:lambda:eu-central-1:111122223333:function:Api${alias === '' ? '' : `:${alias}`}`,
  }) as never;

it('serves the protocol, and names the caller in the history', async () => {
  const { client } = desk();
  const handle = serving(
    () => client,
    () => undefined,
  );
  const call = async (...of: Parameters<typeof signed>) => {
    const answer = (await handle(signed(...of), invokedBy('operate'))) as {
      statusCode: number;
      body: string;
    };
    return { status: answer.statusCode, body: JSON.parse(answer.body) };
  };
  const submitted = await call('POST', '/jobs', { type: 'resize', runAt: '+1h' });
  expect(submitted.status).toBe(201);
  const { jobId } = submitted.body;
  await call('POST', `/jobs/${jobId}/retime`, { runAt: '+2h' });
  const history = JSON.stringify((await call('GET', `/jobs/${jobId}/history`)).body);
  expect(history).toContain('assumed-role/operators/ada');
  expect(history).not.toContain('somebody else');
  expect((await call('GET', '/nothing')).status).toBe(404);
});

it('lets callers do what the role of their URL may, and those of no URL only look', async () => {
  const { client } = desk();
  const handle = serving(
    () => client,
    () => undefined,
  );
  const statusOf = async (alias: string, ...of: Parameters<typeof signed>): Promise<number> =>
    ((await handle(signed(...of), invokedBy(alias))) as { statusCode: number }).statusCode;
  const statuses = async (alias: string) => [
    await statusOf(alias, 'GET', '/fleets'),
    await statusOf(alias, 'POST', '/jobs', { type: 'resize' }),
    await statusOf(alias, 'POST', '/controls/pause', { scope: 'pool' }),
  ];
  expect(await statuses('read')).toEqual([200, 403, 403]);
  expect(await statuses('submit')).toEqual([403, 201, 403]);
  expect(await statuses('operate')).toEqual([200, 201, 200]);
  expect(await statuses('')).toEqual([200, 403, 403]);
  expect(await statuses('$LATEST')).toEqual([200, 403, 403]);
});

it('says so if a result is larger than what a function URL lets through', async () => {
  const pool = {
    types: { resize: {} },
    fleets: { images: { types: ['resize'] } },
    largePayloads: { maxBytes: 8_000_000 },
  };
  const { client } = desk({ pool });
  const handle = serving(
    () => client,
    () => undefined,
  );
  const call = async (path: string) =>
    (await handle(signed('GET', path), invokedBy('read'))) as { statusCode: number; body: string };
  // Each quotation mark takes three more bytes on its way.
  const { jobId } = await client.submit({ type: 'resize', payload: '"'.repeat(1_900_000), runAt: '+1h' });
  const { statusCode, body } = await call(`/jobs/${jobId}`);
  expect(statusCode).toBe(413);
  expect(JSON.parse(body)).toMatchObject({
    status: 413,
    detail: expect.stringMatching(/the answer has 7\d{6} bytes.* references=true/),
  });
});

it('streams no outcomes, and says how to hear of them', async () => {
  const { client } = desk();
  const handle = serving(
    () => client,
    () => undefined,
  );
  const { statusCode, body } = (await handle(signed('GET', '/events'), invokedBy('operate'))) as {
    statusCode: number;
    body: string;
  };
  expect(statusCode).toBe(501);
  expect(JSON.parse(body)).toMatchObject({
    detail: expect.stringMatching(/POST \/jobs\/wait.*rule of the bus/),
  });
});
