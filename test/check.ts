/** `npm run check`: types, format and lint, directions of imports, dead code. One line a tool, and what it found. */
import { spawn } from 'node:child_process';
import { TOOLS } from './tools.ts';

async function run(name: string, command: string, args: readonly string[]): Promise<boolean> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const output: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  const code = await new Promise<number | null>((resolve) => {
    child.on('error', (error) => {
      output.push(`${error.message}\n`);
      resolve(1);
    });
    child.on('close', resolve);
  });
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name}`);
  if (code !== 0) console.log(output.join(''));
  return code === 0;
}

const results = await Promise.all(TOOLS.map(([name, command, ...args]) => run(name, command, args)));
process.exitCode = results.every(Boolean) ? 0 : 1;
