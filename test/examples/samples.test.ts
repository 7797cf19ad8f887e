import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeSamples } from '../../examples/files/samples.ts';
import { walk } from '../../examples/files/walk.ts';
import { folderWith } from './folder.ts';

it('the example without a folder has 50 files, the same ones each time', async () => {
  const folder = join(await folderWith(), 'samples');
  const contents = async () => {
    const { files } = await walk(await writeSamples(folder));
    return Promise.all(files.map(async ({ path, file }) => [path, await readFile(file, 'hex')]));
  };
  const first = await contents();
  expect(first).toHaveLength(50);
  expect(await contents()).toEqual(first);
});
