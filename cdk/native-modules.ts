/**
 * Packages with native code, such as `sharp`, cannot be bundled. They are packed beside the bundle, built for the target
 * platform.
 */

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { BundlingOptions } from 'aws-cdk-lib/aws-lambda-nodejs';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { FUNCTION_BUNDLING } from './function.ts';
import { checkText, having, listOf, oneOf } from './values.ts';

/** The platform of functions. `host`: processes of this machine, under a local emulator. `lambda`: AWS Lambda. */
export type Platform = 'host' | 'lambda';

/** Returns the default platform: this machine if an emulator is configured. */
export const defaultPlatform = (): Platform => (process.env.AWS_ENDPOINT_URL ? 'host' : 'lambda');

export interface NativeModulesProps {
  /** Packages that the function's code imports by name. */
  readonly modules: readonly string[];
  /** The target platform. For the host, installed packages are copied; for Lambda, the same versions are installed with npm. */
  readonly platform: Platform;
  /**
   * The architecture on Lambda.
   * @default Architecture.ARM_64
   */
  readonly architecture?: Architecture | undefined;
  /** The folder where the packages are installed: in its `node_modules`, or in that of a parent folder. */
  readonly installedIn: string;
}

const PLATFORMS = { host: 'host', lambda: 'lambda' } as const satisfies Readonly<Record<Platform, Platform>>;
export const checkPlatform = oneOf(PLATFORMS, 'host or lambda');

const CHECKS: Readonly<Record<keyof NativeModulesProps, Check>> = {
  modules: listOf(checkText),
  platform: checkPlatform,
  architecture: having('dockerPlatform', 'an Architecture'),
  installedIn: checkText,
};
const checkProps = objectOf(CHECKS);

/** An installed package: the folder to copy, and its name below `node_modules`. */
interface Installed {
  readonly name: string;
  readonly folder: string;
}

interface Manifest {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/**
 * Returns bundling options for a `NodejsFunction` whose code imports packages with native code: `FUNCTION_BUNDLING`,
 * and commands that put these packages beside the bundle.
 * @throws ConfigurationError for an unknown or impossible prop
 * @throws Error for a package that is not installed
 */
export function bundlingWithNativeModules(props: NativeModulesProps): BundlingOptions {
  checkProps('', props);
  const { modules, platform, architecture = Architecture.ARM_64, installedIn } = props;
  const commands = (outputDir: string): string[] =>
    platform === 'host'
      ? copyCommands(modules, installedIn, outputDir)
      : [installCommand(modules, installedIn, outputDir, architecture)];
  return {
    ...FUNCTION_BUNDLING,
    externalModules: [...FUNCTION_BUNDLING.externalModules, ...modules],
    commandHooks: {
      beforeBundling: () => [],
      beforeInstall: () => [],
      afterBundling: (_inputDir, outputDir) => commands(outputDir),
    },
  };
}

function copyCommands(modules: readonly string[], installedIn: string, outputDir: string): string[] {
  return withDependencies(modules, installedIn).flatMap(({ name, folder }) => {
    const target = join(outputDir, 'node_modules', name);
    return [`mkdir -p ${quoted(dirname(target))}`, `cp -R ${quoted(folder)} ${quoted(target)}`];
  });
}

function installCommand(
  modules: readonly string[],
  installedIn: string,
  outputDir: string,
  architecture: Architecture,
): string {
  const cpu = architecture.name === Architecture.ARM_64.name ? 'arm64' : 'x64';
  const pinned = modules.map((name) => {
    const { version } = readManifest(folderOf(name, installedIn) ?? notInstalled(name, installedIn));
    return quoted(`${name}@${version}`);
  });
  return [
    'npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error',
    `--os=linux --cpu=${cpu} --libc=glibc --prefix ${quoted(outputDir)} ${pinned.join(' ')}`,
  ].join(' ');
}

/** Returns the packages with all their dependencies. Optional ones that are missing belong to other platforms. */
function withDependencies(modules: readonly string[], installedIn: string): readonly Installed[] {
  const found = new Map<string, Installed>();
  const visit = (name: string, from: string, optional: boolean): void => {
    if (found.has(name)) return;
    const folder = folderOf(name, from);
    if (folder === undefined && optional) return;
    const installed = { name, folder: folder ?? notInstalled(name, from) };
    found.set(name, installed);
    const { dependencies = {}, optionalDependencies = {} } = readManifest(installed.folder);
    for (const dependency of Object.keys(optionalDependencies)) visit(dependency, installed.folder, true);
    for (const dependency of Object.keys(dependencies)) {
      // npm lists an optional dependency among the dependencies, too.
      visit(dependency, installed.folder, dependency in optionalDependencies);
    }
  };
  for (const name of modules) visit(name, installedIn, false);
  return [...found.values()];
}

/** Returns the folder of a package. It looks as Node.js does: in this folder's `node_modules`, then in its parents'. */
function folderOf(name: string, from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name);
    if (existsSync(join(candidate, 'package.json'))) return candidate;
    if (folder === dirname(folder)) return undefined;
  }
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

function notInstalled(name: string, from: string): never {
  throw new Error(`${name} is not installed for ${from}. Run \`npm install ${name}\` there.`);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
