/**
 * The dispatch context of a resident. All its leads share it, and it is replaced when one of its partitions, or the store, has a
 * newer declaration.
 */

import { DECLARATION_AGE_MS } from '../../declaration/declaration.ts';
import type { DispatcherIdentity } from '../../store/contract/records.ts';
import { withDeclaration } from '../dispatch.ts';
import { residentHolder } from '../lead/lead.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { ResidentSettings } from './options.ts';

export class ResidentContext {
  readonly #life: DispatcherIdentity;
  #now: DispatchContext;
  #lookedAtMonotonicMs: number;

  constructor(settings: ResidentSettings, life: DispatcherIdentity) {
    const { store, queue, configuration, deployed, clock, random, log, metrics, budget } = settings;
    this.#life = life;
    this.#lookedAtMonotonicMs = clock.monotonicMs();
    this.#now = {
      store,
      queue,
      configuration,
      deployed,
      clock,
      random,
      log,
      metrics,
      holder: residentHolder(life),
      budget,
      announced: new Map(),
      counted: new Map(),
      caches: new Map(),
      seen: new Map(),
    };
  }

  get now(): DispatchContext {
    return this.#now;
  }

  /** Reads the declared version once a minute, because no partition may have reported a newer one. */
  async keepUp(): Promise<void> {
    const { deployed, store, clock, log } = this.#now;
    if (deployed === undefined || clock.monotonicMs() - this.#lookedAtMonotonicMs < DECLARATION_AGE_MS)
      return;
    this.#lookedAtMonotonicMs = clock.monotonicMs();
    try {
      await this.renew(await store.readDeclaredVersion());
    } catch (error) {
      log.warn('the declared version could not be read; trying again', {
        ...this.#life,
        error: String(error),
      });
    }
  }

  /** Replaces the context by one with a newer declaration, unless this has happened already. */
  async renew(version: number): Promise<void> {
    const { deployed, log } = this.#now;
    if (deployed === undefined || deployed.version >= version) return;
    const next = await withDeclaration(this.#now, deployed, version);
    if ((this.#now.deployed?.version ?? 0) >= (next.deployed?.version ?? 0)) return;
    this.#now = next;
    log.info('a newer declaration was read', { ...this.#life, version: next.deployed?.version });
  }
}
