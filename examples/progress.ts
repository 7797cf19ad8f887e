/** Says how far a run is: on a terminal in place, else in a line now and then. On standard error. */
import { createLogUpdate } from 'log-update';

export interface Progress {
  /** A step that takes a while, or something worth knowing. */
  readonly say: (line: string) => void;
  /** How far it is; replaces what was said before it. */
  readonly update: (line: string) => void;
  /** Leaves the last line where it is. */
  readonly done: () => void;
}

const LINE_EVERY_MS = 5_000;

export function progressOn(stream: NodeJS.WriteStream, monotonicMs: () => number): Progress {
  const say = (line: string): void => {
    stream.write(`fairlead: ${line}\n`);
  };
  if (stream.isTTY) {
    const inPlace = createLogUpdate(stream);
    return {
      say: (line) => {
        inPlace.clear();
        say(line);
      },
      update: (line) => inPlace(`fairlead: ${line}`),
      done: () => inPlace.done(),
    };
  }
  let saidAtMs = -Infinity;
  let last = '';
  return {
    say,
    update: (line) => {
      last = line;
      if (monotonicMs() - saidAtMs < LINE_EVERY_MS) return;
      saidAtMs = monotonicMs();
      last = '';
      say(line);
    },
    done: () => {
      if (last !== '') say(last);
      last = '';
    },
  };
}
