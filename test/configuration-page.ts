/**
 * `npm run docs:configuration`: writes `docs/configuration.md` from the comments of `lib/core/pool-input.ts`, which editors
 * show. `test/configuration-page.test.ts` compares them with what `resolveConfiguration` does.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';

const project = resolve(import.meta.dirname, '..');
const SOURCE = resolve(project, 'lib/core/pool-input.ts');
export const CONFIGURATION_PAGE = resolve(project, 'docs/configuration.md');

/** A field of a declaration, as its comment describes it. */
export interface DescribedField {
  readonly name: string;
  readonly meaning: string;
  readonly byDefault: string;
  readonly bounds: string;
  readonly example: string;
}

/** An object of a declaration. */
export interface DescribedObject {
  readonly meaning: string;
  readonly fields: readonly DescribedField[];
}

/** The objects of a declaration, by the names of their types, in the order of the page. */
const SECTIONS = {
  PoolInput: { title: 'The pool', at: 'the props of `Scheduler`' },
  JobTypeInput: { title: 'Job types', at: '`types.<name>`' },
  RetryInput: { title: 'Retries', at: '`types.<name>.retry`' },
  ErrorRuleInput: { title: 'Error rules', at: '`types.<name>.retry.errors[n]`' },
  TierInput: { title: 'Tiers', at: '`tiers[n]`' },
  FleetInput: { title: 'Fleets', at: '`fleets.<name>`' },
  LimitInput: { title: 'Limits', at: '`limits.<name>`' },
  RateInput: { title: 'Rates', at: '`limits.<name>.rate`' },
  BudgetInput: { title: 'Budgets', at: '`limits.<name>.budget`' },
  FairnessInput: { title: 'Fairness', at: '`fairness`' },
  ScoreInput: { title: 'The score', at: '`score`' },
  LendingInput: { title: 'Lending', at: '`lending`' },
  LargePayloadsInput: { title: 'Large payloads', at: '`largePayloads`' },
} as const;

export type ObjectName = keyof typeof SECTIONS;

/** The lines of a comment as one text, or as one for each tag. */
function partsOf(comment: string): ReadonlyMap<string, string> {
  const parts = new Map<string, string>();
  let tag = 'meaning';
  for (const line of comment.split('\n')) {
    const text = line.replace(/^\s*\*\s?/, '').trim();
    const [, name, rest = ''] = /^@(\w+) (.*)$/.exec(text) ?? [];
    if (name !== undefined) tag = name;
    const more = name === undefined ? text : rest;
    if (more !== '') parts.set(tag, `${parts.get(tag) ?? ''} ${more}`.trim());
  }
  return parts;
}

const OBJECT = /\/\*\*((?:(?!\*\/).)*)\*\/\nexport interface (\w+) \{\n(.*?)\n\}/gs;
const FIELD = /\/\*\*((?:(?!\*\/).)*)\*\/\n {2,4}readonly (\w+)\??:/gs;

/** What the comments say of each object, in the source or in the types that are made of it. */
export async function describedObjects(path = SOURCE): Promise<ReadonlyMap<string, DescribedObject>> {
  const source = await readFile(path, 'utf8');
  return new Map(
    Array.from(source.matchAll(OBJECT), ([, comment = '', object = '', body = '']) => [
      object,
      {
        meaning: partsOf(comment).get('meaning') ?? '',
        fields: Array.from(body.matchAll(FIELD), ([, text = '', name = '']) => {
          const parts = partsOf(text);
          const part = (tag: string): string => parts.get(tag) ?? '';
          return {
            name,
            meaning: part('meaning'),
            byDefault: part('default'),
            bounds: part('bounds'),
            example: part('example'),
          };
        }),
      },
    ]),
  );
}

const row = ({ name, meaning, byDefault, bounds, example }: DescribedField): string =>
  `| \`${name}\` | ${meaning} | ${byDefault.replace(/^- /, '')} | ${bounds} | \`${example}\` |`;

const INTRODUCTION = `# Configuration

Every field of a declaration: what it means, its default, its bounds, and an example. Editors show the same text. The fields are props of the \`Scheduler\`
construct; the names of types and fleets are keys of objects. A wrong value fails at synth, with the path of the field, the value and the way out, and so does
an unknown field.

- **Durations** are milliseconds (\`600000\`), texts of \`d\`, \`h\`, \`m\`, \`s\` and \`ms\` (\`'10m'\`, \`'1h30m'\`), or objects with \`toMilliseconds()\`, such as a
  \`Duration\` of the AWS CDK. What is stored, and what commands show, are milliseconds. A field whose bounds say *whole* refuses fractions, of a millisecond
  too; other durations keep them.
- **null** means no limit, unless the field says otherwise.
- Other durations of the construct, such as \`visibilityTimeout\` of a fleet or \`timeout\` of a \`WorkerFunction\`, are written the same way. AWS counts them in
  whole seconds.

\`\`\`ts
import type { Construct } from 'constructs';
import { Scheduler, WorkerFunction } from 'fairlead';
import { defineJobs, job } from 'fairlead/jobs';

// Each is a type of the scheduler. Clients and workers import the same declaration.
export const jobs = defineJobs({ thumbnail: job<{ key: string }>(), report: job<{ month: number }>() });

export const addJobs = (scope: Construct) =>
  new Scheduler(scope, 'Jobs', {
    jobs,
    // Settings by name; the others have the defaults.
    types: { thumbnail: { maxConcurrency: 3, timeoutMs: '4m', retry: { delayMs: '2s', maxDelayMs: '10m' } } },
    fleets: {
      images: { types: ['thumbnail'], handler: new WorkerFunction(scope, 'Images', { entry: 'images.ts' }) },
    },
  });
\`\`\`

Without \`jobs\`, \`types\` declares the types. With \`jobs\`, a name in \`types\`, a fleet or a schedule that is not declared does not compile, and is refused at synth.
\`fairlead types --json\` shows each type's terms and, if it was declared with a schema, the JSON Schema of its payload (\`payloadSchema\`), for forms and
for producers in other languages.
`;

/** The page as it should be. */
export async function configurationPage(): Promise<string> {
  const objects = await describedObjects();
  const sections = Object.entries(SECTIONS).map(([object, { title, at }]) => {
    const { meaning = '', fields = [] } = objects.get(object) ?? {};
    const head = '| field | meaning | default | bounds | example |\n|---|---|---|---|---|';
    return `## ${title}\n\n${meaning} Path: ${at}.\n\n${head}\n${fields.map(row).join('\n')}\n`;
  });
  return `${INTRODUCTION}\n${sections.join('\n')}`;
}

if (import.meta.main) await writeFile(CONFIGURATION_PAGE, await configurationPage());
