/** The OpenAPI document is that of the code, and follows the specification where readers stumble. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { openApiDocument } from '../../lib/http/openapi.ts';
import { httpDesk } from './desk.ts';

const project = resolve(import.meta.dirname, '../..');

interface Described {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly {
    readonly in: string;
    readonly name: string;
    readonly required?: boolean;
  }[];
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}
const document = openApiDocument() as {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
};
const described = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, of]) => ({ path, method, of })),
);

it('stands beside the documentation as the code makes it', async () => {
  await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot(
    join(project, 'docs/openapi.json'),
  );
});

it('is what the server answers', async () => {
  const { send } = httpDesk();
  expect((await send('GET', '/openapi.json')).body).toEqual(JSON.parse(JSON.stringify(document)));
});

it('names each operation once, its parameters as its path does, and its problems', () => {
  expect(document.openapi).toBe('3.1.0');
  const ids = described.map(({ of }) => of.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, of } of described) {
    const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name);
    const parameters = (of.parameters ?? []).filter((each) => each.in === 'path');
    expect(parameters.map(({ name }) => name)).toEqual(inPath);
    expect(parameters.every(({ required }) => required === true)).toBe(true);
    expect(of.responses).toHaveProperty('default');
    expect(Object.values(of.responses).every(({ description }) => description !== '')).toBe(true);
  }
});

it('has every path that the server knows, and the server knows every path that it has', async () => {
  const { send } = httpDesk();
  for (const { path, method } of described) {
    const { status, body } = await send(
      method.toUpperCase(),
      path.replace('{id}', 'x'),
      method === 'get' ? undefined : {},
    );
    expect([404, 405].includes(status) && body.title !== 'NotFoundError', `${method} ${path}`).toBe(false);
  }
});

it('has a place on the page of errors for the type of each problem', async () => {
  const page = await readFile(join(project, 'docs/errors.md'), 'utf8');
  for (const [, name = ''] of page.matchAll(/^\| `(\w+)` \|/gm))
    expect(page).toContain(`<a id="${name.toLowerCase()}"></a>`);
});
