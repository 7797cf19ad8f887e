/** What a user builds of the packed package's entries alone does what they promise: compiled, deployed once, and run. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from '../../lib/testing/environment.ts';
import { endpoint } from '../contract/aws.ts';
import { appWith, type Packed, packPackage } from './pack.ts';
import { SHOP } from './shop.ts';

const TIMEOUT_MS = 15 * 60_000;
const run = promisify(execFile);

let packed: Packed;
let app: string;
/** What the app's producer has printed. */
let seen: Readonly<Record<string, Record<string, unknown>>>;

/** Runs a program of the app's packages with this Node.js, in the app's folder. */
async function node(...given: readonly string[]): Promise<string> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(AWS|CDK|FAIRLEAD|NODE_OPTIONS$|VITEST|npm_)/.test(name),
  );
  const env = {
    ...Object.fromEntries(kept),
    ...emulatorEnvironment(endpoint),
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    AWS_EC2_METADATA_DISABLED: 'true',
    CDK_DISABLE_CLI_TELEMETRY: 'true',
    CDK_DISABLE_VERSION_CHECK: 'true',
    CDK_VALIDATION: 'false',
    NO_COLOR: '1',
    CI: 'true',
  };
  const { stdout } = await run(process.execPath, given, { cwd: app, env }).catch(
    (error: { readonly stdout: string; readonly stderr: string }) => {
      throw new Error(`${given.join(' ')}\n${error.stdout.slice(-4_000)}\n${error.stderr.slice(-4_000)}`);
    },
  );
  return stdout;
}
const cdk = (...given: readonly string[]): Promise<string> =>
  node('node_modules/aws-cdk/bin/cdk', ...given, '--no-notices');
const fairlead = (...given: readonly string[]): Promise<string> =>
  node('node_modules/fairlead/dist/lib/cli/main.js', ...given);

beforeAll(async () => {
  packed = await packPackage();
  app = await appWith(packed);
  for (const [path, text] of Object.entries(SHOP)) {
    await mkdir(dirname(join(app, path)), { recursive: true });
    await writeFile(join(app, path), text);
  }
  await node('node_modules/typescript/bin/tsc');
  await cdk('bootstrap', `aws://${EMULATOR_ACCOUNT}/${EMULATOR_REGION}`);
  const deployed = ['--require-approval', 'never', '--method', 'direct', '--outputs-file', 'outputs.json'];
  await cdk('deploy', ...deployed);
  await writeFile(join(app, '.env'), await fairlead('env', '--outputs', 'outputs.json'));
  seen = JSON.parse(await node('--env-file=.env', 'producer.ts'));
}, TIMEOUT_MS);
afterAll(async () => {
  try {
    await cdk('destroy', '--all', '--force');
  } finally {
    for (const each of [packed?.folder, app])
      if (each !== undefined) await rm(each, { recursive: true, force: true });
  }
}, TIMEOUT_MS);

describe('an app of the packed package', { timeout: TIMEOUT_MS }, () => {
  it('has its payloads checked by their schemas before they are stored, and before their handlers run', () => {
    expect(seen.refused).toMatchObject({
      atSubmit: 'payload.total',
      atWorker: { name: 'PayloadRefused', message: expect.stringContaining('payload.total') },
      attempts: 1,
      isDeadLetter: true,
    });
  });

  it('gets results by handles, and repeats no step after a retry', () => {
    expect(seen.ordered).toMatchObject({
      fairnessKey: 'c-7',
      repeated: [false, true, true],
      result: { charge: '4711 by attempt 1', attempt: 2 },
      waited: 'succeeded',
    });
  });

  it('finds a job by a tag and by its type', () => {
    expect(seen.ordered).toMatchObject({ byTag: [true], byType: [true] });
  });

  it('has the stack of each failed attempt', () => {
    expect(seen.ordered?.attempts).toEqual([
      { outcome: 'failed', stack: expect.stringMatching(/^at order \(\S*lib\/worker\.ts:\d+:\d+\)/) },
      { outcome: 'succeeded' },
    ]);
  });

  it('submits many jobs, and waits for each', () => {
    expect(seen.together).toEqual({
      entries: ['accepted', 'accepted', 'accepted', 'refused'],
      ended: ['succeeded', 'succeeded', 'succeeded'],
      sameIds: true,
    });
  });

  it('decides about retries by what its handlers throw', () => {
    const { permanent, retryAfter } = seen.called as Record<string, { readonly waitedMs: number }>;
    expect(permanent).toMatchObject({
      isFailure: true,
      attempts: 1,
      error: { name: 'PermanentError', message: expect.stringMatching(/refused.*no such field/) },
    });
    expect(retryAfter).toMatchObject({ result: { attempt: 2 } });
    expect(retryAfter?.waitedMs).toBeGreaterThanOrEqual(2_000);
    // The policy of its type would have waited ten minutes.
    expect(retryAfter?.waitedMs).toBeLessThan(300_000);
  });

  it('runs an existing SQS handler unchanged, in a function that a fleet takes as it is', () => {
    expect(seen.invoiced).toEqual(['succeeded', 'SqsMessageFailed']);
  });

  it('takes payloads and results of more than 64 KB', () => {
    expect(seen.labelled).toEqual({ label: true, payload: true });
  });

  it('counts what a bulk verb would change, changes it, and moves a waiting job before an older one', () => {
    expect(seen.mailed).toEqual({
      counted: ['matches', 'matches'],
      statesAfterCount: ['pending', 'pending'],
      cancelled: ['cancelled', 'cancelled'],
      statesAfterCancel: ['cancelled', 'cancelled'],
      priority: 10,
      ended: ['succeeded', 'succeeded'],
      isUrgentFirst: true,
    });
  });

  it('reads what each attempt has logged, with the spans that a middleware wrote there', async () => {
    const { attempts } = JSON.parse(
      await fairlead('jobs', 'logs', String(seen.ordered?.id), '--json', '-f', '.env'),
    ) as { readonly attempts: readonly { readonly lines: readonly { readonly text: string }[] }[] };
    const written = attempts.map(({ lines }) =>
      lines
        .filter(({ text }) => text.includes(String(seen.ordered?.id)))
        .map(({ text }) => JSON.parse(text) as Readonly<Record<string, unknown>>),
    );
    const messages = written.map((lines) => lines.map(({ message }) => message));
    expect(messages).toEqual([
      expect.arrayContaining(['charged', 'span']),
      expect.not.arrayContaining(['charged']),
    ]);
    const [, traceId] = String(seen.ordered?.traceparent).split('-');
    for (const lines of written) {
      const spans = lines.filter(({ message }) => message === 'span');
      expect(spans).toMatchObject([
        { span: 'wait order', links: [traceId] },
        { span: 'process order', links: [traceId] },
      ]);
    }
    expect(seen.ordered).toMatchObject({ submitSpan: 'submit order' });
  });

  it('imports nothing of Fairlead but its entries', async () => {
    const { exports } = JSON.parse(
      await readFile(join(app, 'node_modules/fairlead/package.json'), 'utf8'),
    ) as { readonly exports: Readonly<Record<string, unknown>> };
    const entries = Object.keys(exports).map((name) => join('fairlead', name));
    const imported = Object.values(SHOP).flatMap((text) =>
      Array.from(text.matchAll(/from '(fairlead[^']*)'/g), ([, name = '']) => name),
    );
    expect(entries).toEqual(expect.arrayContaining(imported));
  });
});
