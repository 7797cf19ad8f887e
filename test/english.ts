/**
 * Whether comments and pages are in plain English, as far as a count can tell: pronouns without a person, and sentences that begin with a
 * relative clause. `node test/english.ts` fails above the bounds; with folders or files it lists what it finds in those.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

const project = resolve(import.meta.dirname, '..');

/** How many of each a tree may have. River, a scheduler of the same size, has three and one. */
export const ENGLISH_BOUNDS = { pronouns: 30, relatives: 50 } as const;

const SOURCES = ['lib', 'cdk', 'functions'] as const;
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs'] as const;

const PRONOUN = /\b(?:who|what)(?:so)?ever\b|\b(?:some|no|any)body\b/gi;
const RELATIVE = /^(?:who|whoever|whose|what|whatever|where|wherever|of)\b(?!.*\?$)/i;

export interface Finding {
  readonly kind: keyof typeof ENGLISH_BOUNDS;
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

interface Passage {
  readonly line: number;
  readonly text: string;
}

/** The comments of a source that stand in lines of their own, as the formatter leaves them. Neighbouring line comments are one passage. */
export function commentsIn(source: string): readonly Passage[] {
  const passages: { line: number; text: string }[] = [];
  let open: 'block' | 'lines' | undefined;
  source.split('\n').forEach((text, at) => {
    const [, mark, rest] = /^\s*(\/\*\*?|\/\/)\s?(.*)$/.exec(text) ?? [];
    if (open === 'block') {
      const last = passages.at(-1);
      if (last !== undefined) last.text += `\n${text.replace(/^\s*\*\/?|\*\/\s*$/g, '')}`;
    } else if (mark === '//' && open === 'lines') {
      const last = passages.at(-1);
      if (last !== undefined) last.text += `\n${rest}`;
    } else if (mark !== undefined)
      passages.push({ line: at + 1, text: (rest ?? '').replace(/\*\/\s*$/, '') });
    if (mark === '//') open = 'lines';
    else if (mark !== undefined || open === 'block') open = text.includes('*/') ? undefined : 'block';
    else open = undefined;
  });
  return passages;
}

/** The prose of a page, a passage for each paragraph, list item and row of a table. Code and headings are left out. */
function proseIn(page: string): readonly Passage[] {
  const passages: { line: number; text: string }[] = [];
  let isCode = false;
  let goesOn = false;
  page.split('\n').forEach((text, at) => {
    if (text.startsWith('```')) isCode = !isCode;
    const prose = text.replace(/^[\s>|*-]+/, '');
    if (isCode || prose === '' || /^(?:```|#)/.test(text)) goesOn = false;
    else if (goesOn && !/^\s*[|>*-]/.test(text)) {
      const last = passages.at(-1);
      if (last !== undefined) last.text += ` ${prose}`;
    } else {
      passages.push({ line: at + 1, text: prose });
      goesOn = true;
    }
  });
  return passages;
}

const sentencesOf = (text: string): readonly string[] =>
  text
    .split(/\n\s*\n|\n\s*-\s|\n\s*(?=@)|(?<=[.!?])\s+(?=[^a-z])/)
    .map((sentence) => sentence.replace(/\s+/g, ' ').trim())
    .filter((sentence) => sentence !== '');

/** Findings in one text. */
export function findingsIn(file: string, text: string): readonly Finding[] {
  const passages = file.endsWith('.md') ? proseIn(text) : commentsIn(text);
  return passages.flatMap((passage) => {
    const found = { file, line: passage.line };
    const pronouns = Array.from(passage.text.matchAll(PRONOUN), ([word]) => ({
      ...found,
      kind: 'pronouns' as const,
      text: `${word}: ${passage.text.replace(/\s+/g, ' ').slice(0, 160)}`,
    }));
    const relatives = sentencesOf(passage.text)
      .filter((sentence) => RELATIVE.test(sentence))
      .map((sentence) => ({ ...found, kind: 'relatives' as const, text: sentence.slice(0, 160) }));
    return [...pronouns, ...relatives];
  });
}

function filesIn(path: string): readonly string[] {
  const whole = resolve(project, path);
  if (statSync(whole).isFile()) return [whole];
  return readdirSync(whole, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|md)$/.test(name))
    .map((name) => join(whole, name));
}

const findingsUnder = (paths: readonly string[]): readonly Finding[] =>
  paths.flatMap(filesIn).flatMap((file) => findingsIn(relative(project, file), readFileSync(file, 'utf8')));

function main(paths: readonly string[]): void {
  if (paths.length > 0) {
    for (const { file, line, kind, text } of findingsUnder(paths))
      console.log(`${file}:${line} ${kind} ${text}`);
    return;
  }
  for (const [name, tree] of [
    ['sources', SOURCES],
    ['pages', PAGES],
  ] as const) {
    const findings = findingsUnder(tree);
    for (const [kind, bound] of Object.entries(ENGLISH_BOUNDS)) {
      const count = findings.filter((each) => each.kind === kind).length;
      console.log(`${name}: ${count} ${kind}, at most ${bound}`);
      if (count > bound) process.exitCode = 1;
    }
  }
}

if (import.meta.main) main(process.argv.slice(2));
