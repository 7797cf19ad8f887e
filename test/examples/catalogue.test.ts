import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { appendToCatalogue, type CatalogueLine } from '../../examples/files/catalogue.ts';
import { folderWith } from './folder.ts';

const line = (job: string, path = 'lib/a'): CatalogueLine => ({
  job,
  path,
  type: 'index',
  output: 'files/lib/a.words.json',
  sha256: '00',
});

const linesOf = async (out: string): Promise<readonly CatalogueLine[]> =>
  (await readFile(join(out, 'catalogues/lib.jsonl'), 'utf8'))
    .split('\n')
    .slice(0, -1)
    .map((text) => JSON.parse(text) as CatalogueLine);

describe("a directory's catalogue", () => {
  it('has one line for each job, in the order of their ends', async () => {
    const out = await folderWith();
    expect(await appendToCatalogue(out, 'lib', line('one'))).toBe('appended');
    expect(await appendToCatalogue(out, 'lib', line('two'))).toBe('appended');
    expect(await linesOf(out)).toEqual([line('one'), line('two')]);
  });

  it('does not get a second line from a second attempt', async () => {
    const out = await folderWith();
    await appendToCatalogue(out, 'lib', line('one'));
    expect(await appendToCatalogue(out, 'lib', line('one'))).toBe('present');
    expect(await linesOf(out)).toEqual([line('one')]);
  });

  it('is not deceived by a path that looks like a job', async () => {
    const out = await folderWith();
    await appendToCatalogue(out, 'lib', line('one', '","job":"two"'));
    expect(await appendToCatalogue(out, 'lib', line('two'))).toBe('appended');
  });

  it('loses the half of a line that a killed worker left', async () => {
    const out = await folderWith();
    await appendToCatalogue(out, 'lib', line('one'));
    await appendFile(join(out, 'catalogues/lib.jsonl'), JSON.stringify(line('two')).slice(0, 30));
    expect(await appendToCatalogue(out, 'lib', line('two'))).toBe('appended');
    expect(await linesOf(out)).toEqual([line('one'), line('two')]);
  });
});
