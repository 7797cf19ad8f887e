import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { checkEsbuild } from '../../cdk/esbuild.ts';
import { bundlingWithNativeModules } from '../../cdk/native-modules.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { EnvironmentError } from '../../lib/core/errors.ts';
import { outputFolder } from './stacks.ts';

const hooksOf = (props: Parameters<typeof bundlingWithNativeModules>[0]): readonly string[] =>
  bundlingWithNativeModules(props).commandHooks?.afterBundling('/in', '/out dir') ?? [];

describe('the functions’ code', () => {
  it('is one file each, with the AWS SDK inside', { timeout: 60_000 }, () => {
    const app = new App({ context: cdkJson.context, analyticsReporting: false, outdir: outputFolder() });
    const stack = new Stack(app, 'Bundled');
    const entry = join(import.meta.dirname, '../integration/redeploy-workers.ts');
    const handler = new WorkerFunction(stack, 'Work', { entry });
    new Scheduler(stack, 'Jobs', {
      fleets: { printers: { types: ['print'], handler }, pdf: { types: ['pdf'] } },
    });
    Template.fromStack(stack).resourceCountIs('AWS::Lambda::Function', 4);
    const { directory } = app.synth();
    const assets = readdirSync(directory).filter((name) => name.startsWith('asset.'));
    expect(assets).toHaveLength(4);
    for (const asset of assets) {
      const files = readdirSync(join(directory, asset)).toSorted();
      expect(files).toEqual(['index.mjs', 'index.mjs.map']);
      const { sources } = JSON.parse(readFileSync(join(directory, asset, 'index.mjs.map'), 'utf8')) as {
        readonly sources: readonly string[];
      };
      // Messages of zod in some fifty languages would be a fifth of the code.
      const languages = sources.filter((source) => /zod\/.*\/locales\/(?!index)\w+\.js$/.test(source));
      expect(languages.map((source) => basename(source))).toEqual(['en.js']);
      const code = join(directory, asset, 'index.mjs');
      expect(readFileSync(code, 'utf8')).toContain('DynamoDB_20120810');
      // There is no node_modules folder around it: what loads has everything with it.
      const script = `console.log(typeof (await import(${JSON.stringify(pathToFileURL(code).href)})).handler)`;
      const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
        cwd: directory,
      });
      expect(printed.toString().trim()).toBe('function');
    }
  });
});

describe('an app without esbuild', () => {
  afterEach(() => void vi.unstubAllEnvs());

  it('is told to install it, before the CDK would go on to ask for Docker', () => {
    vi.stubEnv('PATH', '');
    const folder = outputFolder();
    const stack = new Stack(new App({ analyticsReporting: false }), 'Deployed');
    expect(() => checkEsbuild(stack, folder)).toThrow(EnvironmentError);
    expect(() => checkEsbuild(stack, folder)).toThrow(`${folder}: run \`npm install --save-dev esbuild\``);
    // Where nothing is bundled, as in tests of an app, nothing is needed.
    const unbundled = new App({ analyticsReporting: false, context: { 'aws:cdk:bundling-stacks': [] } });
    expect(() => checkEsbuild(new Stack(unbundled, 'Tested'), folder)).not.toThrow();
  });
});

describe('packages with machine code', () => {
  it('are copied with all they need from where they are installed, for this machine', () => {
    const commands = hooksOf({ modules: ['sharp'], platform: 'host', installedIn: import.meta.dirname });
    expect(commands.join('\n')).toMatch(/cp -R '\/.*node_modules\/sharp' '\/out dir\/node_modules\/sharp'/);
    expect(commands.join('\n')).toMatch(/'\/out dir\/node_modules\/@img\/sharp-[a-z0-9-]+'/);
    expect(commands.join('\n')).toContain("'/out dir/node_modules/detect-libc'");
  });

  it('are installed in the same version for Amazon Linux, for Lambda', () => {
    const { version } = JSON.parse(readFileSync('node_modules/sharp/package.json', 'utf8')) as {
      version: string;
    };
    const [arm] = hooksOf({ modules: ['sharp'], platform: 'lambda', installedIn: import.meta.dirname });
    expect(arm).toContain('--os=linux --cpu=arm64 --libc=glibc');
    expect(arm).toContain(`'sharp@${version}'`);
    const [intel] = hooksOf({
      modules: ['sharp'],
      platform: 'lambda',
      architecture: Architecture.X86_64,
      installedIn: import.meta.dirname,
    });
    expect(intel).toContain('--cpu=x64');
  });

  it('that are not installed are named', () => {
    expect(() => hooksOf({ modules: ['absent'], platform: 'host', installedIn: '/' })).toThrow(
      /absent is not installed for \/\. Run `npm install absent`/,
    );
  });
});
