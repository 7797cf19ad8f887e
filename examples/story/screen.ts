/** The story's output: lines that stay, and on a terminal a live bar for each tenant below them. */
import { createLogUpdate } from 'log-update';

export interface Bar {
  readonly name: string;
  readonly weight: number;
  readonly done: number;
  readonly of: number;
}

export interface Screen {
  /** Writes lines that stay. */
  readonly say: (text: string) => void;
  /** Draws the bars anew. */
  readonly draw: (bars: readonly Bar[]) => void;
  /** Leaves the bars where they are. */
  readonly end: () => void;
}

/** The width of all that is written. */
const COLUMNS = 80;
const BAR_CELLS = 40;

export function barText({ name, weight, done, of }: Bar): string {
  const cells = Math.floor((done / of) * BAR_CELLS);
  const share = weight === 1 ? '' : `weight ${weight}`;
  const count = `${String(done).padStart(3)} of ${String(of).padStart(3)}`;
  return `  ${name.padEnd(6)} ${share.padEnd(8)} ${'█'.repeat(cells)}${'░'.repeat(BAR_CELLS - cells)}  ${count}`;
}

/** One line for a reader without a terminal. */
const countsText = (bars: readonly Bar[]): string =>
  `  done: ${bars.map(({ name, done, of }) => `${name} ${done} of ${of}`).join(', ')}`;

/** Text in lines of at most 80 columns; each begins as the first one does. */
export function wrapped(text: string, indent = /^ */.exec(text)?.[0] ?? ''): string {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.trim().split(/\s+/)) {
    if (line !== indent && line.length + 1 + word.length > COLUMNS) {
      lines.push(line);
      line = indent;
    }
    line = line === indent ? `${line}${word}` : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

export function screenOn(stream: NodeJS.WriteStream): Screen {
  if (stream.isTTY) {
    const inPlace = createLogUpdate(stream);
    let drawn = '';
    return {
      say: (text) => {
        inPlace.clear();
        stream.write(`${text}\n`);
        if (drawn !== '') inPlace(drawn);
      },
      draw: (bars) => {
        drawn = `\n${bars.map(barText).join('\n')}`;
        inPlace(drawn);
      },
      end: () => {
        drawn = '';
        inPlace.done();
      },
    };
  }
  let last = '';
  let told = '';
  const tell = (): void => {
    if (last === told) return;
    stream.write(`${last}\n`);
    told = last;
  };
  return {
    // The counts are told when something else is.
    say: (text) => {
      tell();
      stream.write(`${text}\n`);
    },
    draw: (bars) => {
      last = countsText(bars);
    },
    end: tell,
  };
}
