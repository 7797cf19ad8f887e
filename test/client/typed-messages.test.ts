/** The first line that the compiler prints about a wrong call names what is wrong. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const WAIT_MS = 120_000;

/** Wrong calls, each with what the first line of its message says. */
const MISTAKES: readonly (readonly [call: string, says: RegExp])[] = [
  [
    "client.submit('reprot', { month: 3 });",
    /Argument of type '"reprot"' is not assignable to parameter of type '"report" \| "thumbnail"'/,
  ],
  [
    "client.submit({ type: 'reprot', payload: { month: 3 } }, {});",
    /Type '"reprot"' .*Did you mean '"report"'\?/,
  ],
  ["client.submit('report', { moth: 3 });", /'moth' does not exist in type '\{ month: number; \}'/],
  ["client.submit('report', { month: 'May' });", /Type 'string' is not assignable to type 'number'/],
  ["client.submit('report');", /'"report"' .*"report needs a payload: give it as the second argument"/],
  ["client.submit({ type: 'report' });", /'\{ type: "report"; \}' .*readonly payload: \{ month: number; \}/],
  ["client.submit('report', { month: 3 }, { runat: '+10m' });", /'runat' .*Did you mean to write 'runAt'\?/],
  [
    "client.run('report', { month: 3 }, { timeoutMs: '1m' });",
    /'timeoutMs' does not exist in type 'RunJobOptions'\. Did you mean to write 'timeout'\?|'timeoutMs' .*'RunJobOptions'/,
  ],
  [
    "client.submitMany([{ type: 'reprot', payload: { month: 3 } }]);",
    /Type '"reprot"' is not assignable to type '"report" \| "thumbnail"'. Did you mean '"report"'\?/,
  ],
  [
    "client.submitMany([{ type: 'report', payload: { month: 'May' } }]);",
    /Type 'string' is not assignable to type 'number'/,
  ],
  [
    "client.schedules.put('monthly', { cron: '0 8 1 * *', type: 'reprot', payload: { month: 3 } });",
    /Type '"reprot"' is not assignable to type '"report" \| "thumbnail"'. Did you mean '"report"'\?/,
  ],
  [
    "client.schedules.put('monthly', { cron: '0 8 1 * *', type: 'report', payload: { month: 'May' } });",
    /Type 'string' is not assignable to type 'number'/,
  ],
  [
    "only(jobs, 'reprot');",
    /Argument of type '"reprot"' is not assignable to parameter of type '"report" \| "thumbnail"'/,
  ],
  ['job<{ at: Date }>();', /JSON holds no Date: send its text/],
  ['job<{ pages: readonly Set<string>[] }>();', /JSON holds no Set: send a list/],
  ['job<{ pages: Map<string, number> }>();', /JSON holds no Map: send an object or a list/],
  [
    "client.submit('thumbnail', { key: 'a' }).then((handle) => handle.result()).then(({ with: it }) => it);",
    /Property 'with' does not exist on type '\{ width: number; \}'/,
  ],
];

const SCENE = `
import type { StoreClient } from '${project}/lib/client/client.ts';
import { defineJobs, job, only } from '${project}/lib/jobs/jobs.ts';
const jobs = defineJobs({
  thumbnail: job<{ key: string }, { width: number }>(),
  report: job<{ month: number }, { url: string }>(),
});
declare const client: StoreClient<typeof jobs>;
`;

it('says what is wrong in its first line', { timeout: WAIT_MS }, async () => {
  await mkdir(join(project, '.fairlead'), { recursive: true });
  const folder = await mkdtemp(join(project, '.fairlead', 'messages-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const linesBefore = SCENE.split('\n').length;
  await writeFile(
    join(folder, 'mistakes.ts'),
    `${SCENE}${MISTAKES.map(([call]) => call).join('\n')}\nexport {};\n`,
  );
  const compilerOptions = { rewriteRelativeImportExtensions: false };
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: join(project, 'tsconfig.json'),
      compilerOptions,
      include: ['*.ts'],
      exclude: [],
    }),
  );
  const tsc = join(project, 'node_modules/typescript/bin/tsc');
  const printed = await new Promise<string>((done) => {
    execFile(
      process.execPath,
      [tsc, '--project', folder, '--pretty', 'false'],
      { cwd: folder },
      (_, stdout) => done(stdout),
    );
  });
  const firstLines = printed.split('\n').filter((line) => line.startsWith('mistakes.ts'));
  const byCall = MISTAKES.map((_, at) =>
    firstLines.find((line) => line.startsWith(`mistakes.ts(${linesBefore + at},`)),
  );
  for (const [at, [call, says]] of MISTAKES.entries())
    expect([call, byCall[at]]).toEqual([call, expect.stringMatching(says)]);
  expect(firstLines).toHaveLength(MISTAKES.length);
});
