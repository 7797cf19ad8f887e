/**
 * Takes one protection out of a source: at a place that a symbol names, or a marker in the source, by an operator. Neither says how the
 * source is written, so renames and formatting leave a planted bug where it is.
 *
 * - A symbol: `within(() => import('../../lib/core/fairness.ts'), (m) => m.wholeUnits)`. The compiler checks it, and an editor that
 *   renames it renames it here, too.
 * - A marker: `at('old-images')`, for `// planted: old-images` above what begins on the next line. It may move to any file.
 *
 * Where the place is larger than what is changed, the kind of that is said, too, and which one of the kind, in their order. In what a
 * symbol names, it must be the only one.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'oxc-parser';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDERS = ['lib', 'functions', 'cdk'] as const;
const MARKER = /\/\/ planted: ([\w-]+)/g;

/** A node of the syntax tree, as far as it matters here. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [part: string]: unknown;
}

/** What stands instead of the characters between two places. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Held = readonly [node: Node, holder: Node | undefined];
type Operator = (node: Node, holder: Node | undefined, source: string) => Edit;

/** The kinds of things that operators change, as the parser calls them. */
type Kind =
  | 'ArrayExpression'
  | 'ArrowFunctionExpression'
  | 'AssignmentExpression'
  | 'AwaitExpression'
  | 'BinaryExpression'
  | 'CallExpression'
  | 'ConditionalExpression'
  | 'ExpressionStatement'
  | 'ForOfStatement'
  | 'Identifier'
  | 'IfStatement'
  | 'Literal'
  | 'LogicalExpression'
  | 'MemberExpression'
  | 'ObjectExpression'
  | 'Property'
  | 'ReturnStatement'
  | 'SpreadElement'
  | 'TemplateLiteral'
  | 'ThrowStatement'
  | 'UnaryExpression';

export interface Mutation {
  /** From the project's folder. */
  readonly file: string;
  readonly change: (source: string) => string;
}

interface Place {
  readonly name: string;
  readonly file: () => string;
  readonly find: (source: string) => Held | undefined;
  readonly isSymbol: boolean;
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof Reflect.get(value, 'type') === 'string';

const partsOf = (node: Node): readonly Node[] => Object.values(node).flat().filter(isNode);

/** A node and all that it holds, each with what holds it, in the order in which they begin. */
function* withAll(node: Node, holder?: Node): Generator<Held> {
  yield [node, holder];
  for (const part of partsOf(node)) yield* withAll(part, node);
}

const textOf = (node: Node, source: string): string => source.slice(node.start, node.end);

function partOf(node: Node, name: string): Node | undefined {
  const part = node[name];
  return isNode(part) ? part : undefined;
}

/** By the type of a node, its part that says whether, or what. */
const VALUES: Readonly<Record<string, string>> = {
  IfStatement: 'test',
  ConditionalExpression: 'test',
  ReturnStatement: 'argument',
  ExpressionStatement: 'expression',
  VariableDeclarator: 'init',
  Property: 'value',
  ArrowFunctionExpression: 'body',
};

/** What a node says: a condition, what is answered, or the node itself. */
function saidBy(node: Node): Node {
  const exported = partOf(node, 'declaration') ?? node;
  const [declared] = Array.isArray(exported.declarations) ? (exported.declarations as readonly Node[]) : [];
  const inner = declared ?? exported;
  const value = partOf(inner, VALUES[inner.type] ?? '') ?? inner;
  return inner.type === 'VariableDeclarator' && value.type === 'ArrowFunctionExpression'
    ? saidBy(value)
    : value;
}

/** Another value. In its text, `$` is the one that was there, and `$1`, `$2` are its parts: operands, or what is called and with what. */
export const becomes =
  (text: string): Operator =>
  (node, _, source) => {
    const { start, end } = saidBy(node);
    const parts = partsOf(saidBy(node));
    const given = text.replace(/\$(\d?)/g, (_all, nth: string) => {
      const part = nth === '' ? saidBy(node) : parts[Number(nth) - 1];
      if (part === undefined)
        throw new RangeError(`there is no ${nth}th part in ${source.slice(start, end)}`);
      return part.type === 'SpreadElement' ? textOf(part, source) : `(${textOf(part, source)})`;
    });
    const isShort = node.type === 'Property' && node.shorthand === true;
    return { start, end, text: isShort ? `${source.slice(start, end)}: ${given}` : given };
  };

/** A condition that never holds. */
export const never: Operator = becomes('false');

/** A condition that always holds. */
export const always: Operator = becomes('true');

/** Another operator between two operands. */
export const compared =
  (operator: string): Operator =>
  (node, holder, source) =>
    becomes(`$1 ${operator} $2`)(node, holder, source);

/** Nothing in the place of a statement, an operand, a property, an element or a parameter. */
export const dropped: Operator = (node, holder, source) => {
  if (holder?.type === 'LogicalExpression' || holder?.type === 'BinaryExpression') {
    const kept = partOf(holder, partOf(holder, 'left') === node ? 'right' : 'left') ?? holder;
    return { start: holder.start, end: holder.end, text: textOf(kept, source) };
  }
  if (/Statement$|Declaration$/.test(node.type)) return { start: node.start, end: node.end, text: ';' };
  const behind = /^\s*,/.exec(source.slice(node.end))?.[0].length ?? 0;
  return { start: node.start, end: node.end + behind, text: '' };
};

const parsed = (source: string): ReturnType<typeof parseSync> => parseSync('source.ts', source);

let markers: ReadonlyMap<string, string> | undefined;

/** By name, the file in which a marker stands. */
export function markedFiles(): ReadonlyMap<string, string> {
  if (markers !== undefined) return markers;
  const found = new Map<string, string>();
  for (const folder of FOLDERS)
    for (const entry of readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
      const path = join(entry.parentPath, entry.name);
      for (const [, name = ''] of readFileSync(path, 'utf8').matchAll(MARKER)) {
        if (found.has(name)) throw new RangeError(`the marker ${name} stands in several places`);
        found.set(name, relative(ROOT, path));
      }
    }
  markers = found;
  return found;
}

/** What begins below a marker. */
export const at = (marker: string): Place => ({
  name: `the marker ${marker}`,
  file: () => markedFiles().get(marker) ?? '',
  isSymbol: false,
  find: (source) => {
    const { program, comments } = parsed(source);
    const comment = comments.find(({ value }) => value.trim() === `planted: ${marker}`);
    if (comment === undefined) return undefined;
    // Other comments may stand between.
    const last = comments.reduce(
      (end, each) => (each.start >= end && source.slice(end, each.start).trim() === '' ? each.end : end),
      comment.end,
    );
    const start = last + source.slice(last).search(/\S/);
    return [...withAll(program as unknown as Node)].find(
      ([node, holder]) => holder !== undefined && node.start === start,
    );
  },
});

/** What an exported symbol names: a function, a constant, or a method, by its class's prototype. Neither parameter is ever called. */
export function within<T>(module: () => Promise<T>, symbol: (module: T) => unknown): Place {
  const [, file = ''] = /((?:lib|functions|cdk)\/[^"'`]+)["'`]/.exec(String(module)) ?? [];
  const names = String(symbol)
    .split('.')
    .slice(1)
    .filter((each) => each !== 'prototype');
  return {
    name: `${names.join('.')} of ${file}`,
    file: () => file,
    isSymbol: true,
    find: (source) => {
      let found: Held | undefined = [parsed(source).program as unknown as Node, undefined];
      for (const name of names)
        found = found && [...withAll(...found)].find(([node]) => nameOf(node) === name);
      return found;
    },
  };
}

/** What a declaration or a method is called. */
function nameOf(node: Node): unknown {
  const isNaming = /^(Function|Class|Variable)Declarat|Definition$/.test(node.type);
  return isNaming ? (partOf(node, 'id') ?? partOf(node, 'key'))?.name : undefined;
}

/** At this place, this is done to it, or to the nth of a kind in it. */
export const change = (place: Place, operator: Operator, kind?: Kind, nth = 1): Mutation => ({
  get file() {
    const file = place.file();
    if (file === '') throw new RangeError(`${place.name} is not there any more`);
    return file;
  },
  change: (source) => {
    const found = place.find(source);
    if (found === undefined) throw new RangeError(`${place.name} is not there any more`);
    const all = [...withAll(...found)].filter(([node]) => kind === undefined || node.type === kind);
    if (kind !== undefined && (place.isSymbol ? all.length !== 1 : all.length < nth))
      throw new RangeError(`${place.name} has ${all.length} of ${kind}, so nobody knows which: mark it`);
    const [node, holder] = all[nth - 1] ?? found;
    const { start, end, text } = operator(node, holder, source);
    return source.slice(0, start) + text + source.slice(end);
  },
});
