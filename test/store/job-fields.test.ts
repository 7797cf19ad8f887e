/** A field of a job that is forgotten somewhere does not compile: new ones are planted in a copy of the tree, and the compiler is asked. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { SubmitRequest } from '../../lib/client/submissions.ts';
import type { jobRequest } from '../../lib/dispatch/request.ts';

const project = resolve(import.meta.dirname, '../..');
const WAIT_MS = 120_000;

/** What the client takes is what an event may ask for. This line does not compile for a field that one of them lacks. */
type Asked = keyof z.input<typeof jobRequest>;
const isSame: [Asked, keyof SubmitRequest] extends [keyof SubmitRequest, Asked] ? true : never = true;

describe('a new field of a job', () => {
  let tree: string;

  beforeAll(async () => {
    tree = await mkdtemp(join(tmpdir(), 'fairlead-fields-'));
    await Promise.all([
      cp(join(project, 'lib'), join(tree, 'lib'), { recursive: true }),
      cp(join(project, 'package.json'), join(tree, 'package.json')),
      symlink(join(project, 'node_modules'), join(tree, 'node_modules')),
    ]);
    await writeFile(
      join(tree, 'tsconfig.json'),
      JSON.stringify({
        extends: join(project, 'tsconfig.json'),
        files: ['lib/store/dynamodb/codec/job.ts', 'lib/client/events.ts'],
        include: [],
      }),
    );
  }, WAIT_MS);
  afterAll(() => rm(tree, { recursive: true, force: true }));

  const plant = async (path: string, before: string, added: string): Promise<void> => {
    const file = join(tree, path);
    const text = await readFile(file, 'utf8');
    expect(text.split(before)).toHaveLength(2);
    await writeFile(file, text.replace(before, `${added}${before}`));
  };

  /** Files in which the compiler misses the name. */
  const missedIn = async (name: string): Promise<readonly string[]> => {
    const output = await new Promise<string>((done) => {
      const tsc = join(project, 'node_modules/typescript/bin/tsc');
      execFile(process.execPath, [tsc, '--project', tree, '--pretty', 'false'], { cwd: tree }, (_, stdout) =>
        done(stdout),
      );
    });
    const errors = output.split('\n').filter((line) => /^lib\/.*error TS/.test(line));
    expect(errors.filter((line) => !line.includes(`'${name}'`))).toEqual([]);
    return [...new Set(errors.map((line) => line.slice(0, line.indexOf('('))))].sort();
  };

  it('does not compile until the table of fields has it, nor then until everything that follows from the table does', {
    timeout: WAIT_MS,
  }, async () => {
    expect(isSame).toBe(true);
    expect(await missedIn('colour')).toEqual([]);
    await plant(
      'lib/core/job.ts',
      '  /** The schedule whose firing made it. */\n',
      '  readonly colour?: string | undefined;\n',
    );
    expect(await missedIn('colour')).toEqual(['lib/store/job-fields.ts']);
    await plant(
      'lib/store/job-fields.ts',
      "  scheduleId: { kept: 'item'",
      "  colour: { kept: 'item', redrive: 'same', asked: true, told: true },\n",
    );
    expect(await missedIn('colour')).toEqual([
      'lib/client/events.ts',
      'lib/dispatch/request.ts',
      'lib/store/dynamodb/codec/job.ts',
    ]);
  });
});
