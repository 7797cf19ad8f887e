import { createHash } from 'node:crypto';
import { readdir, readFile, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Manifest } from '../../examples/files/manifest.ts';
import { topDirectory } from '../../examples/files/names.ts';
import type { Summary } from '../../examples/files/summary.ts';
import { accepts, descendantsOf, isAlive, until } from '../testing/processes.ts';
import { folderWith } from './folder.ts';
import { lastLineOf, portOf, start } from './start.ts';

const TIMEOUT_MS = 180_000;

/** The story's chapters, in their order. */
const CHAPTERS = [
  'Three tenants share 8 slots',
  "quiet's only job started",
  'Two exports of album-7 were sent',
  'which holds album/album-7',
  'of 4 pages. Its worker, exporter-',
  'kill -9 ',
  'A report of quiet is due at',
  'it started ',
  'An operator pauses noisy',
  "The worker's lease has ended",
  'goes on with the first export after page',
  'album-7 is free',
  'job is running on exporter-',
  'The whole history of the first export',
  'its worker was lost',
  'succeeded after',
  'npm start -- --keep leaves it running',
];

describe('npm start', { timeout: TIMEOUT_MS }, () => {
  it('tells what Fairlead is for, in lines of a terminal, and leaves nothing behind', async () => {
    const started = start([]);
    await until(() => started.output().includes('Its worker, exporter-'), 'a worker is killed');
    const running = descendantsOf(started.child.pid ?? 0);
    expect(await started.code, started.errors()).toBe(0);
    const lines = started.output().split('\n');
    expect(lines.filter((line) => line.length > 80 && !line.startsWith('  set -a; . '))).toEqual([]);
    let text = started.output().replaceAll(/\s+/g, ' ');
    for (const chapter of CHAPTERS) {
      expect(text).toContain(chapter);
      text = text.slice(text.indexOf(chapter));
    }
    expect(started.output()).toMatch(/it started \d+\.\d s later\n/);
    expect(started.output()).toMatch(/done: noisy \d+ of 200, gold 100 of 100, quiet 1 of 1\n/);
    expect(lines.filter((line) => line.startsWith('  npm run --silent fairlead -- '))).toHaveLength(5);
    await until(() => running.every(({ pid }) => !isAlive(pid)), 'all processes are gone');
    expect(await accepts(portOf(started))).toBe(false);
  });

  it('finishes every file of a folder full of odd ones, and proves it', async () => {
    const png = await sharp({ create: { width: 600, height: 300, channels: 3, background: '#369' } })
      .png()
      .toBuffer();
    const root = await folderWith({
      'in/-rf': 'plain words',
      'in/sp ace/d\u00e9ep/\u65e5\u672c\u8a9e.md': '\u65e5\u672c\u8a9e words',
      'in/sp ace/a\nb.txt': 'words',
      'in/sp ace/image[1].png': png,
      'in/empty/zero': '',
      'in/empty/broken.png': 'no image',
      'in/__proto__/constructor': '__proto__',
      'in/lib/a.zst': 'x',
      [`in/lib/${'n'.repeat(250)}`]: 'long',
    });
    const input = join(root, 'in');
    const out = join(input, 'results');
    await writeFile(join(input, 'lib/large'), '');
    await truncate(join(input, 'lib/large'), 50 * 1024 * 1024);
    await symlink('nowhere', join(input, 'lib/dangling'));
    await symlink('lib', join(input, 'to-lib'));

    const started = start(['--input', input, '--out', out, '--json']);
    expect(await started.code, started.errors()).toBe(0);
    const summary = JSON.parse(started.output()) as Summary;
    expect(summary.jobs.byState).toEqual({ failed: 2, succeeded: 9 });
    expect(summary.failed.map(({ path, error }) => [path, error.split(':')[0]])).toEqual([
      ['empty/broken.png', 'BrokenImage'],
      ['lib/dangling', 'UnreadableFile'],
    ]);
    expect(summary.skipped.map(({ path }) => path)).toEqual(['to-lib']);

    const manifest = JSON.parse(await readFile(join(out, 'manifest.json'), 'utf8')) as Manifest;
    expect(manifest.files.map((file) => file.path)).toContain('sp ace/a\nb.txt');
    const jobs = manifest.files.flatMap((file) => file.jobs.map((job) => ({ path: file.path, ...job })));
    expect(new Set(jobs.map((job) => job.id)).size).toBe(11);
    const lines = new Map<string, number>();
    for (const name of await readdir(join(out, 'catalogues'))) {
      for (const line of (await readFile(join(out, 'catalogues', name), 'utf8')).trim().split('\n')) {
        const { job } = JSON.parse(line) as { readonly job: string };
        lines.set(job, (lines.get(job) ?? 0) + 1);
      }
    }
    for (const { id, path, state, output, sha256, error } of jobs) {
      expect(lines.get(id), path).toBe(state === 'succeeded' ? 1 : undefined);
      if (state !== 'succeeded') {
        expect(error, path).toBeTruthy();
        continue;
      }
      const bytes = await readFile(join(out, output ?? ''));
      expect(createHash('sha256').update(bytes).digest('hex'), path).toBe(sha256);
    }
    // One job of a directory at a time.
    for (const own of Map.groupBy(jobs, ({ path }) => topDirectory(path)).values()) {
      const sorted = own.toSorted((a, b) => Date.parse(a.startedAt ?? '') - Date.parse(b.startedAt ?? ''));
      for (const [at, { startedAt }] of sorted.slice(1).entries()) {
        expect(Date.parse(startedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(sorted[at]?.finishedAt ?? ''));
      }
    }
    expect(await accepts(portOf(started))).toBe(false);
  });

  it('ends with one line when the stack cannot be deployed', async () => {
    const server = createServer((_request, response) => {
      response.writeHead(403, { 'content-type': 'text/xml' });
      response.end(
        '<ErrorResponse><Error><Code>AccessDenied</Code><Message>not today</Message></Error></ErrorResponse>',
      );
    }).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await new Promise((done) => server.once('listening', done));
    const address = server.address();
    const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const root = await folderWith({ 'in/x': 'words' });
    const started = start(['--input', join(root, 'in'), '--out', join(root, 'out')], {
      AWS_ENDPOINT_URL: endpoint,
    });
    expect(await started.code).toBe(1);
    expect(lastLineOf(started)).toMatch(
      /^fairlead: cdk bootstrap failed: .*not today.*\(all of it: .*\.log\)/,
    );
  });

  it('ends with one line when nothing answers at the endpoint', async () => {
    const root = await folderWith({ 'in/x': 'words' });
    const started = start(['--input', join(root, 'in'), '--out', join(root, 'out')], {
      AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
    });
    expect(await started.code).toBe(1);
    expect(lastLineOf(started)).toMatch(
      /^fairlead: nothing answers at AWS_ENDPOINT_URL=.*: start it, or unset/,
    );
  });

  it('ends with one line when Python is missing', async () => {
    const root = await folderWith({ 'in/x': 'words' });
    const started = start(['--input', join(root, 'in'), '--out', join(root, 'out')], {
      PATH: root,
      FAIRLEAD_DATA: join(root, 'data'),
    });
    expect(await started.code).toBe(1);
    expect(lastLineOf(started)).toMatch(
      /^fairlead: python3 is not on the PATH\..*install it, or set AWS_ENDPOINT_URL/,
    );
  });

  it('explains itself, and refuses what it does not understand', async () => {
    const help = start(['--help']);
    expect(await help.code).toBe(0);
    expect(help.output()).toContain('--input DIR');
    const wrong = start(['--nonsense']);
    expect(await wrong.code).toBe(2);
    expect(lastLineOf(wrong)).toContain('--nonsense');
    expect(wrong.output()).toBe('');
  });
});
