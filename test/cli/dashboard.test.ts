/** `fairlead dashboard`: what it prints, under whose name it changes jobs, and how it ends. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { callerArn, roleCredentials } from '../../lib/cli/sts.ts';
import { MisconfiguredError } from '../../lib/core/errors.ts';
import { verifyingServer } from '../fixtures/signatures.ts';
import { counter } from './desk.ts';

afterEach(() => void vi.unstubAllEnvs());

async function aPage(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-page-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'index.html'), '<!doctype html>');
  return folder;
}

describe('fairlead dashboard', () => {
  it('prints a link, serves under the caller’s ARN, and ends with the signal', async () => {
    const at = counter();
    const end = new AbortController();
    let link = '';
    const pageFolder = await aPage();
    const said = at.fairleadIn(
      {
        signal: end.signal,
        pageFolder,
        callerArn: async () => {
          // The command asks before it listens; its link is printed after that.
          setTimeout(() => end.abort(), 300);
          return 'arn:aws:sts::111122223333:assumed-role/operator/ada';
        },
      },
      'dashboard',
      '--port',
      '0',
      '--json',
    );
    const { code, out, error } = await said;
    ({ link } = JSON.parse(out) as { link: string });
    expect({ code, error, open: at.open() }).toEqual({ code: 0, error: '', open: 0 });
    expect(link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#[\w-]{32}$/);
    await expect(fetch(link)).rejects.toThrow();
  });

  it.each([
    ['a port that is none', ['--port', '70000'], '--port: must be a whole number from 0 to 65535'],
    ['an address that others reach, without a token', ['--host', '192.0.2.1'], '--host: '],
  ])('refuses %s', async (_, words, message) => {
    const at = counter();
    const pageFolder = await aPage();
    const { code, error } = await at.fairleadIn(
      { pageFolder, callerArn: async () => undefined },
      'dashboard',
      ...words,
    );
    expect({ code, open: at.open() }).toEqual({ code: 2, open: 0 });
    expect(error).toContain(message);
  });

  it('says where the page comes from if it is not built', async () => {
    const { code, error } = await counter().fairleadIn(
      { pageFolder: '/nowhere', callerArn: async () => 'arn:aws:iam::1:user/a' },
      'dashboard',
    );
    expect(code).toBe(2);
    expect(error).toContain('npm run build');
  });
});

describe('STS', () => {
  const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret/+', sessionToken: 'session' };
  const ROLE = 'arn:aws:iam::111122223333:role/reader';

  beforeEach(() => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', KEYS.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', KEYS.secretAccessKey);
    vi.stubEnv('AWS_SESSION_TOKEN', KEYS.sessionToken);
    vi.stubEnv('AWS_REGION', 'eu-central-1');
  });

  /** An STS that answers signed requests. */
  const anSts = (answerTo: (form: URLSearchParams) => { readonly status?: number; readonly body: string }) =>
    verifyingServer(
      { service: 'sts', region: 'eu-central-1', secrets: { [KEYS.accessKeyId]: KEYS.secretAccessKey } },
      (body) => answerTo(new URLSearchParams(body)),
    );

  it('says who the caller is', async () => {
    const sts = await anSts((form) => ({
      body: `<R><Arn>arn:aws:iam::1:user/${form.get('Action') === 'GetCallerIdentity' ? 'ada' : ''}</Arn></R>`,
    }));
    expect(await callerArn(undefined, { AWS_ENDPOINT_URL_STS: sts.url })).toBe('arn:aws:iam::1:user/ada');
    expect(sts.refused).toEqual([]);
  });

  it('that does not answer says nothing', async () => {
    expect(await callerArn(undefined, { AWS_ENDPOINT_URL: 'http://127.0.0.1:1/' })).toBeUndefined();
  });

  it('gives the credentials of a role, in a session that is named after the user', async () => {
    const sessions: (string | null)[] = [];
    const sts = await anSts((form) => {
      sessions.push(form.get('RoleSessionName'));
      return form.get('RoleArn') === ROLE
        ? {
            body: '<R><AccessKeyId>A2</AccessKeyId><SecretAccessKey>s2</SecretAccessKey><SessionToken>t2</SessionToken><Expiration>2027-01-01T00:00:00Z</Expiration></R>',
          }
        : { status: 403, body: '<E><Message>not authorized to perform sts:AssumeRole</Message></E>' };
    });
    const of = (role: string) =>
      roleCredentials(role, 'ada lovelace@host', { AWS_ENDPOINT_URL_STS: sts.url })();
    expect(await of(ROLE)).toEqual({
      accessKeyId: 'A2',
      secretAccessKey: 's2',
      sessionToken: 't2',
      expiration: new Date('2027-01-01T00:00:00Z'),
    });
    expect(sessions).toEqual(['ada-lovelace@host']);
    await expect(of(`${ROLE}-2`)).rejects.toThrow(
      /reader-2 cannot be assumed \(not authorized.*sts:AssumeRole/,
    );
    expect(sts.refused).toEqual([]);
  });
});

describe('fairlead dashboard --role', () => {
  const ROLE = 'arn:aws:iam::111122223333:role/reader';

  it('connects with the role’s credentials, and serves under its ARN', async () => {
    const at = counter();
    const end = new AbortController();
    const asked: unknown[] = [];
    const keys = { accessKeyId: 'A2', secretAccessKey: 's2' };
    const { code } = await at.fairleadIn(
      {
        signal: end.signal,
        pageFolder: await aPage(),
        roleCredentials: (role, name) => {
          asked.push([role, name.length > 0]);
          return async () => keys;
        },
        callerArn: async (credentials) => {
          asked.push(typeof credentials === 'function' ? await credentials() : undefined);
          setTimeout(() => end.abort(), 200);
          return 'arn:aws:sts::111122223333:assumed-role/reader/ada';
        },
      },
      'dashboard',
      ...['--port', '0', '--role', ROLE],
    );
    expect({ code, asked, open: at.open() }).toEqual({ code: 0, asked: [[ROLE, true], keys], open: 0 });
  });

  it('refuses what is no role, and says why one cannot be assumed', async () => {
    const at = counter();
    const wrong = await at.fairleadIn({ pageFolder: await aPage() }, 'dashboard', '--role', 'reader');
    expect(wrong).toMatchObject({
      code: 2,
      error: expect.stringContaining('--role: must be the ARN of a role'),
    });
    const refused = await at.fairleadIn(
      {
        pageFolder: await aPage(),
        roleCredentials: () => async () => {
          throw new MisconfiguredError(`the role ${ROLE} cannot be assumed`);
        },
      },
      'dashboard',
      ...['--port', '0', '--role', ROLE],
    );
    expect(refused.error).toContain('cannot be assumed');
    expect(refused.code).not.toBe(0);
    expect(at.open()).toBe(0);
  });
});
