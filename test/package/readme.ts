/** What the README tells a stranger to do first, for the test that does it. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { project } from './pack.ts';

export interface Beginning {
  /** Of the shell blocks, in their order. */
  readonly commands: readonly string[];
  /** By path: the TypeScript blocks that begin with one, `// lib/images.ts`. */
  readonly files: Readonly<Record<string, string>>;
}

/** The commands and files of the section that begins with a deployment. */
export async function readmeBeginning(): Promise<Beginning> {
  const readme = await readFile(join(project, 'README.md'), 'utf8');
  const [, section = ''] = /^## Quick start\n([\s\S]*?)^## /m.exec(readme) ?? [];
  const blocks = [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const commands = blocks.flatMap(({ 1: language, 2: text = '' }) =>
    language === 'sh' ? text.split('\n').filter((line) => line !== '') : [],
  );
  const files = blocks.flatMap(({ 1: language, 2: text = '' }) => {
    const [, path] = /^\/\/ (\S+)\n/.exec(text) ?? [];
    return language === 'ts' && path !== undefined ? [[path, text] as const] : [];
  });
  return { commands, files: Object.fromEntries(files) };
}
