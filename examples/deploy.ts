/** Deploys a stack of this project to an emulator. */
import { resolve } from 'node:path';
import { type DeployedApp, type DeployOptions, deployApp } from '../lib/testing/deploy.ts';

export interface ExampleOptions extends Omit<DeployOptions, 'cwd' | 'context'> {
  /** A module that exports `addStack`, relative to the project; see `cdk/app.ts`. */
  readonly stack: string;
}

/** @throws EnvironmentError */
export const deploy = ({ stack, ...options }: ExampleOptions): Promise<DeployedApp> =>
  deployApp({
    ...options,
    cwd: resolve(import.meta.dirname, '..'),
    context: { platform: 'host', stack },
  });
