/** Declared schedules, which are checked at synth and created by the deployment. */

import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { ConfigurationError, show } from '../lib/core/errors.ts';
import {
  checkDeclaredSchedules,
  type DeclaredSchedules,
  packDeclaredSchedules,
} from '../lib/deploy/declared-schedules.ts';
import type { ScheduleRequest } from '../lib/schedules/request.ts';
import { refuseTokens } from './tokens.ts';
import { checkText, isDuration } from './values.ts';

/** Returns the request with each `Duration` of aws-cdk-lib as milliseconds, because requests are deployed as JSON. */
const withMilliseconds = (request: ScheduleRequest): ScheduleRequest =>
  typeof request === 'object' && request !== null && !Array.isArray(request)
    ? (Object.fromEntries(
        Object.entries(request).map(([name, value]) => [
          name,
          isDuration(value) && !value.isUnresolved() ? value.toMilliseconds() : value,
        ]),
      ) as unknown as ScheduleRequest)
    : request;

export class ScheduleDeclarations {
  readonly #configuration: () => PoolConfiguration;
  readonly #schedules = new Map<string, ScheduleRequest>();

  /** @throws ConfigurationError for an invalid schedule */
  constructor(configuration: () => PoolConfiguration, schedules: DeclaredSchedules = {}) {
    this.#configuration = configuration;
    for (const [id, request] of Object.entries(schedules)) this.add(id, request);
  }

  /**
   * Adds a schedule.
   * @throws ConfigurationError for an invalid schedule, and for a name in use
   */
  add(id: string, given: ScheduleRequest): void {
    const request = withMilliseconds(given);
    checkText('schedules', id);
    if (this.#schedules.has(id)) {
      throw new ConfigurationError(
        'schedules',
        id,
        'is declared twice',
        `Give one of them another name than ${show(id)}.`,
      );
    }
    refuseTokens('schedules', { [id]: null });
    refuseTokens(`schedules.${id}`, request, { texts: true });
    checkDeclaredSchedules({ [id]: request }, this.#configuration());
    this.#schedules.set(id, request);
    // The schedules together have limits, too.
    packDeclaredSchedules(Object.fromEntries(this.#schedules));
  }

  /**
   * Returns the encoded schedules for the deployment's function. They are checked again, because implied types may be
   * gone by now.
   * @throws ConfigurationError
   */
  encode(): string {
    const schedules = Object.fromEntries(this.#schedules);
    checkDeclaredSchedules(schedules, this.#configuration());
    return packDeclaredSchedules(schedules);
  }
}
