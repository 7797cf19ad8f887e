/** Schedules that are declared: checked at synth, made by the deployment. */

import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { ConfigurationError, show } from '../lib/core/errors.ts';
import {
  checkDeclaredSchedules,
  type DeclaredSchedules,
  packDeclaredSchedules,
} from '../lib/deploy/declared-schedules.ts';
import type { ScheduleRequest } from '../lib/schedules/request.ts';
import { refuseTokens } from './tokens.ts';
import { checkText } from './values.ts';

export class ScheduleDeclarations {
  readonly #configuration: () => PoolConfiguration;
  readonly #schedules = new Map<string, ScheduleRequest>();

  /** @throws ConfigurationError for what no scheduler would take */
  constructor(configuration: () => PoolConfiguration, schedules: DeclaredSchedules = {}) {
    this.#configuration = configuration;
    for (const [id, request] of Object.entries(schedules)) this.add(id, request);
  }

  /** @throws ConfigurationError for what no scheduler would take, and for a name that is taken */
  add(id: string, request: ScheduleRequest): void {
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
    // All of them together have bounds, too.
    packDeclaredSchedules(Object.fromEntries(this.#schedules));
  }

  /**
   * As the deployment's function reads them. Types that were only implied may be gone by now.
   * @throws ConfigurationError
   */
  encode(): string {
    const schedules = Object.fromEntries(this.#schedules);
    checkDeclaredSchedules(schedules, this.#configuration());
    return packDeclaredSchedules(schedules);
  }
}
