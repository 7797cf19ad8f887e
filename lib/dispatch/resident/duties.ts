/**
 * The duty of a resident for each partition: to lead it, to be on standby for it, or neither. The ring of members decides, and
 * this file runs one task for each partition to lead.
 */
import {
  buildRing,
  type PartitionRole,
  partitionHash,
  preferenceOf,
  roleOf,
  roleStep,
} from '../../core/ring.ts';
import { type DispatcherRecord, isLedAt } from '../../store/contract/records.ts';
import { type LeadEnd, type LeadTotals, lead } from '../lead/lead.ts';
import { MISSED_MAX, REPEAT_MS } from '../tuning.ts';
import type { LoadMeter } from './load.ts';
import type { Membership } from './membership.ts';
import type { ResidentSettings } from './options.ts';
import type { ResidentContext } from './resident-context.ts';

/** The duty for one partition. */
interface Duty {
  readonly partition: number;
  role: PartitionRole;
  wanted: PartitionRole;
  /** In how many renewals in a row this resident was on standby and the dispatcher that the ring names as leader did not lead. */
  missed: number;
  /** Whether this resident leads the partition now. */
  isLeading: boolean;
  /** The task that tries to lead the partition, and leads it; undefined: this resident does not want to lead it. */
  task?: { readonly end: AbortController; readonly ended: Promise<void> } | undefined;
}

export class Duties {
  readonly #settings: ResidentSettings;
  readonly #context: ResidentContext;
  readonly #meter: LoadMeter;
  readonly #membership: Membership;
  readonly #totals = { passes: 0, admitted: 0, settled: 0 };
  readonly #all: Duty[] = [];

  constructor(
    settings: ResidentSettings,
    context: ResidentContext,
    meter: LoadMeter,
    membership: Membership,
  ) {
    this.#settings = settings;
    this.#context = context;
    this.#meter = meter;
    this.#membership = membership;
  }

  get totals(): Readonly<Omit<LeadTotals, 'lostClaims'>> {
    return this.#totals;
  }

  /** Returns the number of partitions that exist, or have ever existed. */
  get count(): number {
    return this.#known().length;
  }

  /** Returns the partitions that this resident leads. */
  led(): readonly number[] {
    return this.#all.flatMap(({ partition, isLeading }) => (isLeading ? [partition] : []));
  }

  /** Assigns roles by the ring of these members. */
  assign(members: readonly DispatcherRecord[]): void {
    const { dispatcherId } = this.#settings;
    const byName = new Map(members.map((member) => [member.dispatcherId, member]));
    const ring = buildRing([...byName.keys(), dispatcherId]);
    for (const duty of this.#known()) {
      const { partition } = duty;
      const role = roleOf(ring, partition, dispatcherId);
      const [leader = dispatcherId] = preferenceOf(ring, partitionHash(partition), 1);
      const isLed = role !== 'standby' || byName.get(leader)?.leads.includes(partition) !== false;
      duty.missed = isLed ? 0 : (duty.missed + 1) % (4 * MISSED_MAX);
      this.#setWanted(duty, duty.missed >= MISSED_MAX ? 'leader' : role);
    }
  }

  /** Gives up all partitions. */
  drop(): void {
    for (const duty of this.#all) this.#setWanted(duty, 'offline');
  }

  /** Resolves when all tasks have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#all.map(({ task }) => task?.ended));
  }

  #known(): readonly Duty[] {
    const { configuration, deployed } = this.#context.now;
    const partitions = Math.max(configuration.partitions, deployed?.partitionsEver ?? 1);
    for (let partition = this.#all.length; partition < partitions; partition += 1)
      this.#all.push({ partition, role: 'offline', wanted: 'offline', missed: 0, isLeading: false });
    return this.#all;
  }

  #setWanted(duty: Duty, to: PartitionRole): void {
    duty.wanted = to;
    if (to !== 'leader') {
      if (duty.task === undefined) this.#stepTo(duty, to);
      else duty.task.end.abort();
      return;
    }
    if (duty.task !== undefined) return;
    this.#stepTo(duty, 'standby');
    const end = new AbortController();
    const ended = this.#tryToLead(duty, end.signal).then(() => {
      duty.task = undefined;
      this.#setWanted(duty, duty.wanted);
    });
    duty.task = { end, ended };
  }

  #stepTo(duty: Duty, to: PartitionRole): void {
    for (let next = roleStep(duty.role, to); next !== undefined; next = roleStep(duty.role, to))
      this.#become(duty, next);
  }

  #become(duty: Duty, to: PartitionRole, fields: Readonly<Record<string, unknown>> = {}): void {
    const { partition, role: from } = duty;
    this.#settings.log.info('dispatcher changed its role', {
      ...this.#membership.life,
      partition,
      from,
      to,
      ...fields,
    });
    duty.role = to;
  }

  /** Leads the partition if no other dispatcher does, and tries again until aborted. */
  async #tryToLead(duty: Duty, end: AbortSignal): Promise<void> {
    const { store, clock, log, pollMs } = this.#settings;
    const { partition } = duty;
    while (!end.aborted) {
      let pauseMs = pollMs;
      try {
        const isFree =
          this.#membership.isMember() && !isLedAt(await store.readLeader(partition), clock.nowMs());
        if (isFree) await this.#lead(duty, end);
      } catch (error) {
        log.warn('a partition could not be led; trying again', { partition, error: String(error) });
        pauseMs = REPEAT_MS;
      }
      await clock.sleep(pauseMs, end);
    }
  }

  async #lead(duty: Duty, end: AbortSignal): Promise<void> {
    const { pollMs, passEveryMs } = this.#settings;
    const context = this.#context.now;
    let why: LeadEnd | 'failed' = 'failed';
    try {
      const report = await lead(context, duty.partition, {
        first: { hints: [], fires: true },
        letter: undefined,
        // If this process has read a newer declaration, the lead ends and begins again with it, even if the item of its
        // partition does not name that version yet.
        stays: () => this.#membership.isMember() && this.#context.now === context,
        endsAtMonotonicMs: Infinity,
        end,
        pollMs,
        passEveryMs,
        note: (passMs) => this.#meter.note(passMs),
        began: () => {
          duty.isLeading = true;
          this.#become(duty, 'leader');
        },
      });
      why = report.end;
      this.#totals.passes += report.passes;
      this.#totals.admitted += report.admitted;
      this.#totals.settled += report.settled;
      if (report.outdated !== undefined) await this.#context.renew(report.outdated.version);
    } finally {
      if (duty.isLeading) this.#become(duty, 'standby', { why });
      duty.isLeading = false;
    }
  }
}
