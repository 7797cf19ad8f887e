/**
 * The app of `cdk deploy`: the stack of the example, or with `-c stack=<module>` another one.
 *
 * The module exports `addStack(app, platform)`; its path is relative to the project. The platform is `host` if an
 * emulator runs functions as processes of this machine: when `AWS_ENDPOINT_URL` is set, or with `-c platform=host`.
 */
import { pathToFileURL } from 'node:url';
import { App, type Stack } from 'aws-cdk-lib';
import { defaultPlatform, type Platform } from './native-modules.ts';

const EXAMPLE = 'examples/files/stack.ts';

interface StackModule {
  readonly addStack: (app: App, platform: Platform) => Stack;
}

async function stackModule(path: string): Promise<StackModule> {
  const found: Partial<StackModule> = await import(new URL(path, projectUrl()).href);
  if (typeof found.addStack !== 'function') {
    throw new Error(
      `${path} exports no function addStack(app, platform). Add it, or name another with -c stack=…`,
    );
  }
  return { addStack: found.addStack };
}

function projectUrl(): URL {
  return pathToFileURL(`${import.meta.dirname}/../`);
}

function platformOf(value: unknown): Platform {
  if (value === undefined) return defaultPlatform();
  if (value === 'host' || value === 'lambda') return value;
  throw new Error(`The context value platform is ${JSON.stringify(value)}. It is host or lambda.`);
}

const app = new App();
const { addStack } = await stackModule(String(app.node.tryGetContext('stack') ?? EXAMPLE));
addStack(app, platformOf(app.node.tryGetContext('platform')));
