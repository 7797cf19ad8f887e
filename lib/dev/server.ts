/** `fairlead dev`: a whole scheduler for a user's handlers on the user's machine, without AWS. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type FSWatcher, statSync, watch } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type ServerType, serve } from '@hono/node-server';
import type { Hono } from 'hono';
import { explanationText } from '../cli/explanation.ts';
import { StoreClient } from '../client/client.ts';
import { ConfigurationError, EnvironmentError } from '../core/errors.ts';
import type { Job, Json } from '../core/job.ts';
import { type Dashboard, type DashboardOptions, serveDashboard } from '../dashboard/server.ts';
import { httpApp } from '../http/app.ts';
import { plainProblem, problemAnswer } from '../http/problem.ts';
import { jsonSchemaOf } from '../jobs/schema.ts';
import { type DeclaredLocally, declaredLocally } from '../local/pool.ts';
import { LocalScheduler } from '../local/scheduler.ts';
import { explainJob } from '../operate/explain.ts';
import { systemClock } from '../runtime/system.ts';
import type { WorkerClient } from '../worker/client.ts';
import { readHandlers } from '../worker/handlers.ts';
import type { JobContext } from '../worker/run-job.ts';
import { endFormerLife, readState, saveState, takeFolder } from './keep.ts';
import { Lines } from './lines.ts';
import { LiveTime, Pump } from './live.ts';
import { foldersOf, isOneOf, type LoadedApp, loadApp } from './load.ts';
import { sampleOf } from './sample.ts';

export interface DevOptions {
  readonly module: string | undefined;
  readonly cwd: string;
  readonly port: number;
  readonly speed: number;
  /** The folder in which the state is kept; undefined: it is not kept. */
  readonly keep: string | undefined;
  /** The port of the dashboard. If it is taken, a free one is. */
  readonly dashboardPort: number;
  /** The name of the user, for the history of jobs that they change in the dashboard. */
  readonly actor: string;
  /** The folder of the dashboard's page. @default - that of the package */
  readonly pageFolder?: string | undefined;
  readonly write: (line: string) => void;
  readonly columns: () => number;
}

/** Milliseconds after a file was saved until it is read, because editors write it in several steps. */
const SETTLE_MS = 40;
const SAVE_EVERY_MS = 1_000;
/** Milliseconds between two looks at the queues, because a message that becomes visible again notifies no reader. */
const LOOK_EVERY_MS = 1_000;
const PROCESS_SLOTS = 10;
/** Milliseconds until it is noticed that a function was killed. */
const NOTICED_MS = 1_000;

/** Names by which processes of this machine, and of its containers, reach the server. */
const LOCAL_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]', 'host.docker.internal']);

/** Returns when each of the files was last saved, in epoch ms; -Infinity for one that is missing. */
const savedAt = (files: ReadonlySet<string>): ReadonlyMap<string, number> =>
  new Map(
    Array.from(files, (file) => [file, statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? -Infinity]),
  );

/** The declaration, with statistics for the dashboard: they cost nothing here. */
const declaredForDev = ({ jobs, declaration }: LoadedApp): DeclaredLocally =>
  declaredLocally(jobs, { ...declaration, statistics: true });

/** The port of a server. It is listened at before the server begins, and until all is kept. */
class Door {
  readonly #http: ServerType;
  readonly #opened = Promise.withResolvers<Hono>();
  #isEnding = false;

  /** @throws ConfigurationError - nothing can listen there */
  static async at(port: number): Promise<Door> {
    const door = new Door(port);
    try {
      if (!door.#http.listening) await once(door.#http, 'listening');
    } catch (error) {
      const why = error instanceof Error && 'code' in error ? error.code : error;
      throw new ConfigurationError(
        'port',
        port,
        `cannot be listened at (${why})`,
        'Choose another; 0 takes a free one.',
      );
    }
    return door;
  }

  private constructor(port: number) {
    this.#http = serve({ fetch: (request) => this.#answer(request), port, hostname: '127.0.0.1' });
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  /** Answers requests from now on, also those that wait. */
  open(app: Hono): void {
    this.#opened.resolve(app);
  }

  /** Answers under a local name only: a page of another site may resolve its own name to this machine. */
  async #answer(request: Request): Promise<Response> {
    if (!LOCAL_NAMES.has(new URL(request.url).hostname))
      return problemAnswer(plainProblem(421, 'this server is for processes of this machine; use localhost'));
    const app = await this.#opened.promise;
    return this.#isEnding
      ? problemAnswer(plainProblem(503, 'this server ends; start it again'))
      : app.fetch(request);
  }

  /** Ends all requests, and refuses those that come. */
  end(): void {
    this.#isEnding = true;
    if ('closeAllConnections' in this.#http) this.#http.closeAllConnections();
  }

  async close(): Promise<void> {
    this.end();
    await new Promise((done) => this.#http.close(done));
  }
}

export class DevServer {
  readonly #options: DevOptions;
  readonly #time: LiveTime;
  readonly #scheduler: LocalScheduler;
  #client: StoreClient;
  readonly #lines: Lines;
  readonly #pump: Pump;
  #look: NodeJS.Timeout | undefined;
  readonly #stopping = new AbortController();
  #keeping: Promise<void> = Promise.resolve();
  #app: LoadedApp;
  /** The files that are read again when they change, or are there at last. */
  #files: Set<string>;
  readonly #watchers: FSWatcher[] = [];
  readonly #door: Door;
  /** Gives the folder of the state free. */
  readonly #free: () => Promise<void>;
  #dashboard: Dashboard | undefined;
  #reload: NodeJS.Timeout | undefined;
  #reloading: Promise<void> = Promise.resolve();
  #samples = 0;
  #isOpen = false;

  /**
   * Starts the server.
   * @throws ConfigurationError - what the construct would refuse, in its words
   */
  static async start(options: DevOptions): Promise<DevServer> {
    const app = await loadApp(options.module, options.cwd, new Set());
    const { keep } = options;
    const door = await Door.at(options.port);
    let free = async (): Promise<void> => {};
    try {
      if (keep !== undefined) free = await takeFolder(keep, door.port);
      const state = keep === undefined ? undefined : await readState(keep);
      const server = new DevServer(options, app, door, free, state);
      try {
        await server.#begin(state !== undefined);
      } catch (error) {
        await server.#stop();
        throw error;
      }
      return server;
    } catch (error) {
      await door.close();
      await free();
      throw error;
    }
  }

  private constructor(
    options: DevOptions,
    app: LoadedApp,
    door: Door,
    free: () => Promise<void>,
    state: Awaited<ReturnType<typeof readState>>,
  ) {
    this.#options = options;
    this.#app = app;
    this.#files = new Set(app.files);
    this.#door = door;
    this.#free = free;
    this.#time = new LiveTime(options.speed, state?.savedAtMs);
    const { clock, after } = this.#time;
    const { configuration } = declaredForDev(app);
    readHandlers(app.handlers);
    const fail = (error: unknown): void =>
      options.write(`! ${error instanceof Error ? error.message : String(error)}`);
    this.#lines = new Lines({
      write: options.write,
      columns: options.columns,
      nowMs: clock.nowMs,
      explain: (jobId) => explainJob(this.#scheduler.client, jobId),
    });
    this.#scheduler = new LocalScheduler({
      configuration,
      state,
      clock,
      after,
      random: Math.random,
      shutdownMs: 0,
      restartsProcesses: true,
      handle: (payload, context) => this.#handle(payload, context),
      client: () => this.#client as unknown as WorkerClient,
      observe: (event) => {
        if (this.#isOpen) this.#lines.observe(event);
      },
      onWork: () => this.#pump.notify(),
      onFailure: fail,
    });
    this.#pump = new Pump(() => this.#scheduler.step(), fail);
    this.#client = this.#clientOf(app);
  }

  #clientOf({ jobs }: LoadedApp): StoreClient {
    const { store, queue, configuration, declarations, client } = this.#scheduler;
    const newId = (): string => randomBytes(16).toString('hex');
    const parts = { store, queue, configuration, declarations, large: client.large, jobs };
    return new StoreClient({ ...parts, clock: this.#time.clock, newId });
  }

  /** The address for other processes: `FAIRLEAD_URL`. */
  get url(): string {
    return `http://localhost:${this.#door.port}`;
  }

  async #begin(isKept: boolean): Promise<void> {
    const { keep } = this.#options;
    await this.#deploy();
    const kept = isKept ? await endFormerLife(this.#scheduler) : 0;
    this.#isOpen = true;
    for (const { fleet, slots } of this.#scheduler.configuration.fleets)
      if (slots === null) this.#scheduler.join({ workerId: `${fleet}-1`, fleet, slots: PROCESS_SLOTS });
    // A reload makes a new client, so each access looks up the present one.
    const client = new Proxy(this.#client, {
      get: (_, name) => {
        const value: unknown = Reflect.get(this.#client, name, this.#client);
        return typeof value === 'function' ? value.bind(this.#client) : value;
      },
    });
    const onError = (error: unknown): void => this.#lines.say(`! ${String(error)}`);
    const app = httpApp({
      client,
      events: this.#scheduler.bus,
      ingest: (messages) => this.#scheduler.ingest(messages),
      onError,
    });
    this.#door.open(app);
    this.#dashboard = await this.#serveDashboard({ client, onError });
    process.env.FAIRLEAD_URL = this.url;
    this.#look = setInterval(this.#pump.notify, LOOK_EVERY_MS);
    if (keep !== undefined) this.#keeping = this.#keepIn(keep);
    this.#watch();
    const { fleets, types } = this.#scheduler.configuration;
    this.#lines.say(
      `fairlead dev: ${types.length} job types on ${fleets.length} fleets   FAIRLEAD_URL=${this.url}`,
    );
    this.#lines.say(
      this.#dashboard === undefined
        ? '  no dashboard: this checkout is not built'
        : `  dashboard: ${this.#dashboard.link}`,
    );
    if (kept > 0) this.#lines.say(`  ${kept} ${kept === 1 ? 'job goes' : 'jobs go'} on from ${keep}`);
    this.#lines.say('  keys: s sample  k kill a worker  p pause  e explain  q quit');
  }

  /** Saves the state until the server stops, one time after the other. It says so when this begins to fail. */
  async #keepIn(folder: string): Promise<void> {
    const { signal } = this.#stopping;
    let saved: Buffer | undefined;
    let fails = false;
    while (!signal.aborted) {
      try {
        saved = await saveState(this.#scheduler, folder, saved);
        fails = false;
      } catch (error) {
        if (!fails) this.#lines.say(`! ${folder} does not keep the state: ${String(error)}`);
        fails = true;
      }
      await systemClock.sleep(SAVE_EVERY_MS, signal);
    }
  }

  /** Serves the dashboard, with changes. Undefined: its page is not built. */
  async #serveDashboard(own: Pick<DashboardOptions, 'client' | 'onError'>): Promise<Dashboard | undefined> {
    const { actor, pageFolder, dashboardPort } = this.#options;
    const serveAt = (port: number) => serveDashboard({ ...own, actor, pageFolder, port, write: true });
    const unlessOf =
      (field: string) =>
      (error: unknown): undefined => {
        if (!(error instanceof ConfigurationError) || error.field !== field) throw error;
      };
    return (async () => (await serveAt(dashboardPort).catch(unlessOf('port'))) ?? serveAt(0))().catch(
      unlessOf('pageFolder'),
    );
  }

  async #deploy(): Promise<void> {
    const { configuration, schedules, payloadSchemas } = declaredForDev(this.#app);
    await this.#scheduler.deploy(configuration, { schedules, payloadSchemas });
    this.#client = this.#clientOf(this.#app);
  }

  async #handle(payload: Json, context: JobContext): Promise<unknown> {
    const handler = this.#app.handlers[context.type];
    if (handler === undefined)
      throw new TypeError(`no handler runs ${context.type}: export worker(jobs, { ${context.type}: … })`);
    return handler(payload, context);
  }

  // A saved file

  #watch(): void {
    for (const each of this.#watchers.splice(0)) each.close();
    for (const folder of foldersOf(this.#files)) {
      const watcher = watch(folder, (_, name) => {
        if (name === null || isOneOf(this.#files, join(folder, name))) this.#loadSoon();
      });
      this.#watchers.push(watcher);
    }
  }

  #loadSoon(): void {
    clearTimeout(this.#reload);
    this.#reload = setTimeout(() => {
      this.#reloading = this.#reloading.then(() => this.#load());
    }, SETTLE_MS);
  }

  /** Reads the module again. Jobs that run are given back to the new handlers. */
  async #load(): Promise<void> {
    const began = performance.now();
    const beganMs = systemClock.nowMs();
    const before = savedAt(this.#files);
    let problem: string | undefined;
    try {
      const app = await loadApp(this.#options.module, this.#options.cwd, this.#files);
      declaredForDev(app);
      this.#app = app;
      await this.#deploy();
      this.#files = new Set(app.files);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    this.#watch();
    // A file that was saved meanwhile may have been read before, and its folder may not have been watched.
    for (const [file, atMs] of savedAt(this.#files))
      if (before.has(file) ? before.get(file) !== atMs : atMs >= beganMs) this.#loadSoon();
    if (problem === undefined) {
      this.#lines.say(`  reloaded in ${Math.round(performance.now() - began)} ms`);
      void this.#scheduler.giveBack();
    } else this.#lines.say(`! not reloaded: ${problem}`);
  }

  // Keys

  /** Does what a key says. Returns false if it ends the server. */
  async press(key: string): Promise<boolean> {
    try {
      if (key === 's') await this.#submitSample();
      else if (key === 'k') this.#kill();
      else if (key === 'p') await this.#pause();
      else if (key === 'e') await this.#explain();
    } catch (error) {
      this.#lines.say(`! ${error instanceof Error ? error.message : String(error)}`);
    }
    return key !== 'q' && key !== '\u0003';
  }

  async #submitSample(): Promise<void> {
    const { types } = this.#scheduler.configuration;
    const type = types[this.#samples % types.length]?.type ?? '';
    this.#samples += 1;
    const schema = this.#app.jobs?.[type]?.payload;
    const described = schema === undefined ? undefined : jsonSchemaOf(schema);
    const payload = this.#app.samples[type] ?? sampleOf(described) ?? {};
    const { jobId } = await this.#client.submit({ type, payload: payload as Json } as never);
    this.#lines.say(`  submitted ${type} ${jobId.slice(0, 8)}`);
  }

  #kill(): void {
    const running = this.#oldest((job) => job.state === 'running');
    const isKilled = running !== undefined && this.#scheduler.lose(running.id);
    if (isKilled) setTimeout(() => void this.#scheduler.noticeLoss(running.id), NOTICED_MS).unref();
    this.#lines.say(
      isKilled ? `  killed the worker of ${running.type} ${running.id.slice(0, 8)}` : '  no job runs',
    );
  }

  async #pause(): Promise<void> {
    const controls = await this.#client.controls();
    const isPaused = !controls.some(({ scope, paused }) => scope === 'pool' && paused);
    if (isPaused) await this.#client.pause('pool');
    else await this.#client.resume('pool');
    this.#lines.say(isPaused ? '  paused: running jobs go on, no job starts' : '  resumed');
  }

  async #explain(): Promise<void> {
    const waiting = this.#oldest((job) => job.state === 'pending' || job.state === 'scheduled');
    const explanation =
      waiting === undefined ? undefined : await explainJob(this.#scheduler.client, waiting.id);
    this.#lines.say(explanation === undefined ? '  no job waits' : explanationText(explanation));
  }

  #oldest(fits: (job: Job) => boolean): Job | undefined {
    let oldest: Job | undefined;
    for (const job of this.#scheduler.store.everyJob())
      if (fits(job) && (oldest === undefined || job.submittedAtMs < oldest.submittedAtMs)) oldest = job;
    return oldest;
  }

  /**
   * Ends everything: no job starts any more, those that run are given back at the next start, and nothing is left open.
   * @throws EnvironmentError - the last state could not be saved
   */
  async close(): Promise<void> {
    const { keep } = this.#options;
    await this.#stop();
    try {
      if (keep !== undefined) await saveState(this.#scheduler, keep);
    } catch (error) {
      throw new EnvironmentError(`--keep: ${keep} does not have the last state: ${String(error)}`, {
        cause: error,
      });
    } finally {
      // Another server may have the folder once it is free, or once this one does not answer any more.
      await this.#free();
      await this.#door.close();
    }
  }

  /** Ends all but the port and the folder. */
  async #stop(): Promise<void> {
    this.#scheduler.close();
    this.#door.end();
    this.#stopping.abort();
    clearInterval(this.#look);
    clearTimeout(this.#reload);
    await Promise.all([this.#reloading, this.#keeping]);
    for (const each of this.#watchers) each.close();
    await this.#dashboard?.close();
    this.#lines.close();
    this.#time.close();
  }
}
