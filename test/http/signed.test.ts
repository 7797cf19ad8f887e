/** A client whose requests a function URL with IAM would let in. */
import { expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { regionOfFunctionUrl } from '../../lib/client/signing.ts';
import { MisconfiguredError } from '../../lib/core/errors.ts';
import { allOf, errorOf } from '../client/desk.ts';
import { verifyingServer } from '../fixtures/signatures.ts';
import { httpDesk } from './desk.ts';

const KEYS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPx',
  sessionToken: 't/+=',
};
const WHERE = {
  service: 'lambda',
  region: 'eu-central-1',
  secrets: { [KEYS.accessKeyId]: KEYS.secretAccessKey },
};

async function guarded() {
  const scene = httpDesk();
  const server = await verifyingServer(WHERE, async (body, { method = 'GET', url = '/', headers }) => {
    const answer = await scene.app.request(url, {
      method,
      headers: Object.entries(headers).map(([name, value]) => [name, String(value)]),
      ...(method === 'GET' ? {} : { body }),
    });
    return { status: answer.status, body: await answer.text() };
  });
  const clientWith = (settings: Parameters<typeof SchedulerClient.fromEnvironment>[0]) =>
    SchedulerClient.fromEnvironment(settings, { FAIRLEAD_URL: server.url });
  return { ...scene, ...server, clientWith };
}

it('signs each request, whatever its path, its query and its body hold', async () => {
  const { clientWith, refused, work } = await guarded();
  const client = clientWith({ signRequests: true, region: WHERE.region, credentials: KEYS });
  const { jobId } = await client.submit({
    type: 'resize',
    payload: { text: 'é ☂ "quoted"' },
    idempotencyKey: "a b/é*'(1)",
    fairnessKey: 'k+=&',
    runAt: '+1h',
  });
  expect((await client.get({ idempotencyKey: "a b/é*'(1)" })).id).toBe(jobId);
  expect((await client.schedules.put('nightly:x+y/z', { cron: '0 2 * * *', type: 'report' })).outcome).toBe(
    'created',
  );
  expect((await client.schedules.get('nightly:x+y/z')).id).toBe('nightly:x+y/z');
  const listed = await allOf(client.list({ state: 'scheduled', fairnessKey: 'k+=&' }));
  expect(listed.map(({ id }) => id)).toEqual([jobId]);
  await client.retime(jobId, { runAt: '+2h' }, { actor: 'ada é' });
  await client.cancel(jobId);
  const handle = await client.submit({ type: 'resize' });
  await work();
  expect((await handle.outcome()).status).toBe('succeeded');
  expect(refused).toEqual([]);
  client.destroy();
});

it('is refused with other credentials, for another region, or without a signature, and the error says what to check', async () => {
  const { clientWith, refused } = await guarded();
  const signed = { signRequests: true, region: WHERE.region, credentials: KEYS };
  for (const settings of [
    {},
    { ...signed, credentials: { ...KEYS, secretAccessKey: 'another' } },
    { ...signed, region: 'us-east-1' },
  ]) {
    const client = clientWith(settings);
    const error = await errorOf(client.submit({ type: 'resize' }));
    expect(error).toBeInstanceOf(MisconfiguredError);
    expect(String(error)).toMatch(/status 403 \(Forbidden\); check the credentials/);
    client.destroy();
  }
  expect(refused).toEqual([
    'it is not signed',
    'its signature is wrong',
    'it is signed for lambda in us-east-1',
  ]);
});

it('knows a function URL, and its region, by its name', () => {
  expect(regionOfFunctionUrl('https://abc123.lambda-url.eu-central-1.on.aws/')).toBe('eu-central-1');
  for (const url of [
    'https://jobs.example.com/',
    'https://abc.lambda-url.eu-central-1.on.aws.example.com/',
    'https://example.com/x.lambda-url.eu-central-1.on.aws',
    'no url',
  ])
    expect(regionOfFunctionUrl(url)).toBeUndefined();
});
