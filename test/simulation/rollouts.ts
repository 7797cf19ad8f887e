/**
 * Deployments, while everything else goes on. Each declares through the product's own code, over a network that loses and
 * repeats, from a function that may die at any step and comes again. Then its workers take the places of those before: for a
 * while both run, and whoever dies meanwhile begins again as the old or as the new one. Whatever a process knows of the
 * declarations it reads as in production.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { encodeConfiguration, unpackDeclaration } from '../../lib/declaration/codec.ts';
import { Declarations } from '../../lib/declaration/declaration.ts';
import { type DeclareContext, declare } from '../../lib/deploy/declare.ts';
import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { DeclarationRecord } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import type { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { rankOf } from '../../lib/submit/submit.ts';
import type { Faults } from './faults.ts';
import type { Verb } from './faulty.ts';
import { instead } from './instead.ts';
import type { Invariants } from './invariants.ts';
import type { Caller, SimulatedNode } from './node.ts';
import { diceOf } from './random.ts';
import type { PlannedDeployment, PlannedProcess, PlannedRedeploys } from './redeploys.ts';

/** A function that failed is tried again after this long, so often. */
const AGAIN_MS = 30_000;
const TRIES_MAX = 3;
/** As a process believes what it has read; one that cannot look believes it for longer. */
const STALE_MAX_MS = 60_000;
/** What a deployment may be told: nothing was declared. */
const TRANSIENT: ReadonlySet<string> = new Set(['ThrottledError', 'UnavailableError']);
/** More messages than any queue here has. */
const RECEIVES_MAX = 1_000;

/** The workers of one declaration. */
export interface Generation {
  readonly version: number;
  readonly configuration: PoolConfiguration;
  readonly processes: readonly PlannedProcess[];
  /** Within this, each worker of it begins, and each of the one before ends. */
  readonly rolloutMs: number;
  /** Aborts when one of its workers, by name, is to end: another deployment has taken its place. */
  readonly retires: (name: string) => AbortSignal;
}

export interface RolloutsOptions {
  readonly redeploys: PlannedRedeploys;
  readonly endless: boolean;
  readonly time: VirtualTime;
  readonly faults: Faults;
  readonly invariants: Invariants;
  readonly store: () => MemoryJobStore;
  readonly queue: () => JobQueue;
  /** A process of a deployment's. */
  readonly begin: () => { readonly node: SimulatedNode; readonly store: JobStore; readonly queue: JobQueue };
  /** The workers of a declaration begin. */
  readonly onGeneration: (generation: Generation) => void;
  readonly trace: (line: string) => void;
  readonly onBug: (what: string) => void;
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : String(error));

export class Rollouts {
  readonly #options: RolloutsOptions;
  readonly #generations: Generation[] = [];
  readonly #retiring: (() => void)[] = [];
  readonly #declared = new Set<string>();
  /** By process: what it knows. */
  readonly #known = new Map<string, () => PoolConfiguration | undefined>();
  #finale: 'waits' | 'begun' | 'declared' = 'waits';

  constructor(options: RolloutsOptions) {
    this.#options = options;
  }

  /** The first deployment, before anything runs. */
  async first(): Promise<void> {
    const { store, queue, time, redeploys } = this.#options;
    await declare(
      { store: store(), queue: queue(), nowMs: () => time.nowMs, log: SILENT },
      this.#deployment(redeploys.deployments[0], 0),
    );
  }

  start(): void {
    const { time, faults, redeploys } = this.#options;
    for (const [at, deployment] of redeploys.deployments.entries()) {
      if (at === 0) continue;
      time.after(deployment.atMs, () => this.#deploy(deployment, at));
      if (deployment.againMs === undefined) continue;
      time.after(deployment.atMs + deployment.againMs, () => {
        faults.count('redeployRepeated');
        this.#deploy(deployment, at);
      });
    }
  }

  /** Every type that there ever was is declared by now. */
  get isWhole(): boolean {
    return this.#finale === 'declared';
  }

  /** Everything that is declared is over: what is not is looked at, and declared again. */
  end(look: () => Promise<void>): void {
    if (this.#finale !== 'waits') return;
    this.#finale = 'begun';
    this.#lookAndEnd(look);
  }

  #lookAndEnd(look: () => Promise<void>): void {
    const { redeploys, time, onBug } = this.#options;
    look().then(
      () => this.#deploy(redeploys.finale, redeploys.deployments.length),
      (error: unknown) => {
        if (TRANSIENT.has(nameOf(error))) time.after(AGAIN_MS, () => this.#lookAndEnd(look));
        else onBug(`the look at what waits threw ${String(error)}`);
      },
    );
  }

  /** The newest, and those that may still begin. */
  get newest(): Generation {
    const newest = this.#generations.at(-1);
    if (newest === undefined) throw new RangeError('nothing was declared');
    return newest;
  }

  /** Something is declared, and its workers take the places of others. */
  onDeclared({ version, text }: DeclarationRecord): void {
    const { redeploys, time, faults, invariants, onGeneration, trace } = this.#options;
    const { configuration, deployment } = unpackDeclaration(text);
    const at = Number(deployment.split(' ')[1]);
    const planned = redeploys.deployments[at] ?? redeploys.finale;
    trace(`${time.nowMs} ${deployment} declares version ${version}`);
    if (at > 0) faults.count('redeployed');
    if (this.#declared.has(deployment))
      invariants.violate(
        'declarations',
        `${deployment} came again, and declared again, as version ${version}`,
      );
    this.#declared.add(deployment);
    if (planned.isRollback) faults.count('rolledBack');
    const { partitions } = invariants.versions.configuration;
    if (at > 0 && partitions !== configuration.partitions) faults.count('partitionsChanged');
    if (planned === redeploys.finale) this.#finale = 'declared';
    invariants.onDeclared(version, configuration);
    for (const retire of this.#retiring.splice(0)) retire();
    const generation = this.#generation(version, configuration, planned);
    this.#generations.push(generation);
    onGeneration(generation);
    const former = this.#generations.at(-2);
    if (former !== undefined) this.#removeQueues(former, planned.rolloutMs);
  }

  #generation(
    version: number,
    configuration: PoolConfiguration,
    { processes, rolloutMs }: PlannedDeployment,
  ): Generation {
    const { time, faults } = this.#options;
    const ends = new Map<string, AbortController>();
    let isRetired = false;
    const retireSoon = (name: string, end: AbortController): void => {
      const random = faults.randomOf(`version-${version}/${name}/retires`);
      time.after(random() * (this.newest.rolloutMs + 1), () => end.abort());
    };
    this.#retiring.push(() => {
      isRetired = true;
      // By then the newest is there.
      time.after(0, () => {
        for (const [name, end] of ends) retireSoon(name, end);
      });
    });
    return {
      version,
      configuration,
      processes,
      rolloutMs,
      retires: (name) => {
        const known = ends.get(name);
        if (known !== undefined) return known.signal;
        const end = new AbortController();
        ends.set(name, end);
        if (isRetired) retireSoon(name, end);
        return end.signal;
      },
    };
  }

  /** After the rollout, a queue that nobody names any more is deleted with its messages. */
  #removeQueues({ configuration }: Generation, rolloutMs: number): void {
    const { time, queue } = this.#options;
    for (const { fleet } of configuration.fleets) {
      time.after(rolloutMs, () => {
        if (this.newest.configuration.fleets.some((each) => each.fleet === fleet)) return;
        void (async () => {
          for (let receives = 0; receives < RECEIVES_MAX; receives += 1) {
            const received = await queue().receive(fleet, 10, 0, 1);
            if (received.length === 0) return;
            await queue().delete(
              fleet,
              received.map(({ receipt }) => receipt),
            );
          }
        })();
      });
    }
  }

  #deployment({ configuration }: PlannedDeployment, at: number): Parameters<typeof declare>[1] {
    return {
      pool: encodeConfiguration(configuration),
      queueUrls: Object.fromEntries(configuration.fleets.map(({ fleet }) => [fleet, `queue of ${fleet}`])),
      deployment: `deployment ${at}`,
    };
  }

  #deploy(planned: PlannedDeployment, at: number, tries = 1): void {
    const { begin, time, invariants, trace, onBug, redeploys } = this.#options;
    const { node, store, queue } = begin();
    const what = `deployment ${at} try ${tries}`;
    trace(`${time.nowMs} ${node.name} begins ${what}`);
    let isOver = false;
    const again = (): void => {
      // Who deploys last does so until it is done.
      if (tries < TRIES_MAX || planned === redeploys.finale)
        time.after(AGAIN_MS, () => this.#deploy(planned, at, tries + 1));
    };
    const end = (): void => {
      isOver = true;
      node.kill();
    };
    node.onDeath(() => {
      if (!isOver) again();
    });
    let isTold = true;
    const log: DeclareContext['log'] = {
      info: () => {},
      error: () => {},
      warn: () => {
        isTold = false;
      },
    };
    declare({ store, queue, nowMs: node.clock.nowMs, log }, this.#deployment(planned, at)).then(
      (version) => {
        end();
        if (isTold) invariants.requireToldOf(version);
      },
      (error: unknown) => {
        end();
        trace(`${time.nowMs} ${node.name} ends ${what}: ${String(error)}`);
        if (TRANSIENT.has(nameOf(error))) again();
        else onBug(`${what} threw ${String(error)}`);
      },
    );
  }

  /** What a process knows, which reads it when it begins. */
  declarationsOf(node: SimulatedNode, store: JobStore): Declarations {
    const declarations = new Declarations({ store, clock: node.clock });
    let isRead = false;
    const known = (): PoolConfiguration | undefined => {
      if (!isRead) {
        try {
          void declarations.known;
          isRead = true;
        } catch {
          return undefined;
        }
      }
      return declarations.known.configuration;
    };
    this.#known.set(node.name, known);
    node.onDeath(() => this.#known.delete(node.name));
    return declarations;
  }

  /** What a process knows that has read it some time ago, or just now. */
  rememberedBy(node: SimulatedNode, store: JobStore, least = 1): Declarations {
    const { faults, time, invariants } = this.#options;
    const dice = diceOf(faults.randomOf(`${node.name}/remembers`));
    const readAtMs = time.nowMs - dice.between(0, STALE_MAX_MS);
    const versions = this.#generations.map(({ version }) => version);
    const cached = versions.find(
      (version) =>
        version >= least &&
        (invariants.versions.supersededAtMs(version) ?? Number.POSITIVE_INFINITY) > readAtMs,
    );
    if (cached === undefined || cached === versions.at(-1) || dice.chance(0.5))
      return this.declarationsOf(node, store);
    faults.count('workerOutdated');
    let isFirst = true;
    return this.declarationsOf(
      node,
      instead(store, {
        readDeclaration: (version?: number) => {
          const asked = isFirst ? cached : version;
          isFirst = false;
          return store.readDeclaration(asked);
        },
      }),
    );
  }

  /** A call puts jobs where its process wants them as it is made. */
  as({ name }: Caller, apply: Verb): Verb {
    const known = this.#known.get(name)?.();
    if (known === undefined) return apply;
    const place = rankOf(known);
    return (...parameters) => this.#options.store().placing(place, () => apply(...parameters));
  }
}

const SILENT: DeclareContext['log'] = { info: () => {}, warn: () => {}, error: () => {} };
