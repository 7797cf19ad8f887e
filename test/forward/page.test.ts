/** The page about workers in other languages: its document is the code's, and its producers submit. */
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { serve } from '@hono/node-server';
import { expect, it } from 'vitest';
import { FORWARD_HEADERS } from '../../lib/worker/forward.ts';
import { httpDesk } from '../http/desk.ts';
import { forwardOpenApi } from './openapi.ts';

const run = promisify(execFile);
const docs = resolve(import.meta.dirname, '../../docs');
const page = await readFile(join(docs, 'guides/workers-in-any-language.md'), 'utf8');
const snippet = (language: string): string =>
  new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';

it('names every header', () => {
  for (const name of Object.values(FORWARD_HEADERS)) expect(page).toContain(`\`${name}\``);
});

it('has the OpenAPI document beside it', async () => {
  await expect(`${JSON.stringify(forwardOpenApi(), null, 2)}\n`).toMatchFileSnapshot(
    join(docs, 'worker-openapi.json'),
  );
});

const PROGRAMS = [
  { language: 'python', file: 'submit.py', command: ['python3', 'submit.py'] },
  // The first program that Java runs from its source takes seconds.
  { language: 'java', file: 'Submit.java', command: ['java', 'Submit.java'] },
] as const;
const isThere = (command: string): boolean => spawnSync(command, ['--version']).status === 0;

it.each(PROGRAMS.filter(({ command: [name] }) => isThere(name)))(
  'has a producer in $language that submits',
  { timeout: 120_000 },
  async ({ language, file, command: [name, ...parameters] }) => {
    const { app, store } = httpDesk();
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
    await once(server, 'listening');
    const folder = await mkdtemp(join(tmpdir(), 'fairlead-producer-'));
    await writeFile(join(folder, file), snippet(language));
    const { port } = server.address() as AddressInfo;
    const env = { ...process.env, FAIRLEAD_URL: `http://127.0.0.1:${port}` };
    const { stdout } = await run(name, parameters, { cwd: folder, env });
    const [job] = [...store.everyJob()];
    expect(job).toMatchObject({ type: 'resize', payload: { key: 'a' } });
    expect(stdout).toContain(job?.id);
    server.close();
  },
);
