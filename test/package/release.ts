/**
 * `npm run release:check -- v1.2.3`: whether this checkout may be published under that tag. The version must be the
 * package's, and the changelog must say what it brings.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export interface Published {
  readonly version: string;
  readonly repository?: unknown;
}

/** What stands against it; empty: nothing. */
export function objectionsTo(
  tag: string,
  { version, repository }: Published,
  changelog: string,
): readonly string[] {
  const objections: string[] = [];
  if (tag !== `v${version}`)
    objections.push(`the tag is ${tag || 'missing'}, and package.json says ${version}`);
  const isTold = changelog.split('\n').some((line) => line.startsWith(`## ${version}`));
  if (!isTold)
    objections.push(`CHANGELOG.md has no heading "## ${version}": name there what the version brings`);
  if (repository === undefined)
    objections.push(
      'package.json names no repository, as long as there is no public one: write its address there ({"type": "git", "url": "git+https://…"}), for npm checks the statement of provenance against it',
    );
  return objections;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const project = join(import.meta.dirname, '../..');
  const published = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as Published;
  const changelog = readFileSync(join(project, 'CHANGELOG.md'), 'utf8');
  const objections = objectionsTo(process.argv[2] ?? '', published, changelog);
  for (const objection of objections) console.error(`fairlead: ${objection}`);
  process.exitCode = objections.length === 0 ? 0 : 1;
}
