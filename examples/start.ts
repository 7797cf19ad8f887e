/** `npm start`: shows on an emulator what Fairlead is for, or works through a folder's files. */
import { join, resolve } from 'node:path';
import { stamp } from '../lib/testing/log-files.ts';
import { untilEndIsTold } from './endpoint.ts';
import { wordsOf } from './failures.ts';
import { SubmitError } from './files/requests.ts';
import { workThroughFiles } from './files/work-through.ts';
import { readOptions, type StartOptions, USAGE, UsageError } from './options.ts';
import { progressOn } from './progress.ts';
import type { Run } from './run.ts';
import { tellStory } from './story/tell.ts';

const project = resolve(import.meta.dirname, '..');
const dataDir = resolve(process.env.FAIRLEAD_DATA ?? join(project, '.fairlead'));

/** Exit codes: all went as it should; something went wrong; the command line is wrong. A signal: 128 and its number. */
const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('interrupted');
    this.exitCode = exitCode;
  }
}

function exitCodeOf(error: unknown, say: (line: string) => void): number {
  if (error instanceof Interrupted) {
    say('interrupted');
    return error.exitCode;
  }
  say(wordsOf(error, [SubmitError]));
  return EXIT.failed;
}

/** Repeated signals change nothing: a terminal and npm both deliver the same Ctrl-C. */
function abortOnSignals(controller: AbortController): void {
  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
  for (const [name, code] of Object.entries(codes))
    process.on(name, () => controller.abort(new Interrupted(code)));
  // The launcher is gone, however it ended.
  process.on('disconnect', () => controller.abort(new Interrupted(codes.SIGHUP)));
  process.channel?.unref();
}

async function main(): Promise<number> {
  const progress = progressOn(process.stderr, () => performance.now());
  let options: StartOptions | 'help';
  try {
    options = readOptions(process.argv.slice(2), {
      env: process.env,
      // npm changes to the project's folder, and says where it was called.
      cwd: process.env.INIT_CWD ?? process.cwd(),
      defaultOut: join(dataDir, 'runs', stamp()),
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    progress.say(error.message);
    return EXIT.usage;
  }
  if (options === 'help') {
    process.stdout.write(USAGE);
    return EXIT.ok;
  }

  const controller = new AbortController();
  abortOnSignals(controller);
  const run: Run = { options, dataDir, progress, controller, cleanup: [] };
  let code: number;
  try {
    const isDone = await (options.isStory ? tellStory(run) : workThroughFiles(run));
    code = isDone ? EXIT.ok : EXIT.failed;
  } catch (thrown) {
    progress.done();
    // An emulator that ends makes calls fail. Its end says more than they do, and may be seen after them.
    const { signal } = controller;
    if (!signal.aborted && run.emulator !== undefined) await untilEndIsTold(run.emulator);
    code = exitCodeOf(signal.aborted ? signal.reason : thrown, progress.say);
    controller.abort();
  }
  for (const undo of run.cleanup.reverse()) await undo();
  return code;
}

process.exitCode = await main();
if (process.connected) process.disconnect();
