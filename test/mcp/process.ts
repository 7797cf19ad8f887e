/** `fairlead mcp` with a scheduler in memory: a job that waits for another, a failed one, and what runs. */
import { runProgram } from '../../lib/cli/program.ts';
import { desk } from '../client/desk.ts';

const scene = desk();
const failed = await scene.deadLetter();
await scene.client.submit({ type: 'resize', idempotencyKey: 'holder', resourceId: 'summer' });
await scene.pass();
await scene.startEverywhere();
await scene.client.submit({
  type: 'resize',
  idempotencyKey: 'waits',
  resourceId: 'summer',
  fairnessKey: 'acme',
  payload: { page: 1, apiKey: 'sk-live-123' },
  tags: { order: '4711' },
});
await scene.pass();
process.stderr.write(`failed ${failed.id}\n`);

process.exitCode = await runProgram(
  ['mcp', ...process.argv.slice(2)],
  { out: () => {}, error: (text) => process.stderr.write(text) },
  {
    connect: async () => ({ client: scene.client, close: () => process.stderr.write('closed\n') }),
    actor: () => 'ada',
  },
);
