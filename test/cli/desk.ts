/** Runs the command line inside the test, against a scheduler in memory. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { runProgram, type Surroundings, type Terminal } from '../../lib/cli/program.ts';
import { type Desk, desk } from '../client/desk.ts';
import type { StageOptions } from '../stage/stage.ts';
import type { Said } from './run.ts';

export interface Counter extends Desk {
  readonly fairlead: (...words: readonly string[]) => Promise<Said>;
  /** As `fairlead`, in surroundings of the test's own. */
  readonly fairleadIn: (
    own: Partial<Surroundings> & Pick<Terminal, 'columns'>,
    ...words: readonly string[]
  ) => Promise<Said>;
  /** What a command printed as its one JSON document. */
  readonly data: (...words: readonly string[]) => Promise<Record<string, unknown>>;
  /** Connections that were not closed. */
  readonly open: () => number;
}

export function counter(options: StageOptions = {}): Counter {
  const scene = desk(options);
  let open = 0;
  const fairleadIn: Counter['fairleadIn'] = async (own, ...words) => {
    const said = { out: '', error: '' };
    const code = await runProgram(
      words,
      {
        out: (text) => {
          said.out += text;
        },
        error: (text) => {
          said.error += text;
        },
        columns: own.columns,
      },
      {
        connect: async () => {
          open += 1;
          const close = (): void => {
            open -= 1;
          };
          return { client: scene.client, close };
        },
        nowMs: () => scene.time.nowMs,
        connectDispatcher: async () => {
          open += 1;
          const { store, queue, configuration, clock, random } = scene;
          const close = (): void => {
            open -= 1;
          };
          return {
            parts: { store, queue, configuration, clock, random },
            scheduler: 'table',
            meterTo: () => {},
            close,
          };
        },
        ...own,
      },
    );
    return { code, ...said };
  };
  const fairlead: Counter['fairlead'] = (...words) => fairleadIn({}, ...words);
  const data: Counter['data'] = async (...words) => {
    const { code, out, error } = await fairlead(...words, '--json');
    if (code !== 0 || error !== '') throw new Error(`${code}: ${error}`);
    return JSON.parse(out) as Record<string, unknown>;
  };
  return { ...scene, fairlead, fairleadIn, data, open: () => open };
}

/** A file that is gone after the test. */
export function fileOf(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'file');
  writeFileSync(path, content);
  return path;
}
