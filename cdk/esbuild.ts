/** Checks for esbuild, which bundles the scheduler's functions at synth. The app must install it. */

import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { EnvironmentError } from '../lib/core/errors.ts';

/** Looks for esbuild as the CDK does: among the app's packages, then on the PATH. */
function isInstalled(folder: string): boolean {
  try {
    createRequire(join(folder, 'package.json')).resolve('esbuild');
    return true;
  } catch {
    return spawnSync('esbuild', ['--version'], { stdio: 'ignore' }).status === 0;
  }
}

/**
 * Checks that esbuild is installed if functions are to be bundled.
 * @throws EnvironmentError if functions are to be bundled and esbuild is not installed
 */
export function checkEsbuild(scope: Construct, folder: string = process.cwd()): void {
  // A stack that is not deployed needs no code.
  if (!Stack.of(scope).bundlingRequired || isInstalled(folder)) return;
  throw new EnvironmentError(
    `esbuild, which bundles the scheduler's functions, is not installed in ${folder}: run \`npm install --save-dev esbuild\` there`,
  );
}
