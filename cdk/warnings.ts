/** Says aloud how long a job may take where nobody has written it down. */
import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import type { PoolDeclaration } from './pool.ts';

/** A warning for each type whose time follows from a timeout that a function has only because nobody set one. */
export function warnOfTimeouts(scheduler: Construct, pool: PoolDeclaration): void {
  for (const { type, timeoutMs } of pool.configuration.types) {
    if (pool.timeoutMsOf(type) !== undefined) continue;
    const serving = pool.configuration.fleets.filter(({ types }) => types.includes(type));
    const silent = serving.find(({ fleet }) => pool.handlers.get(fleet)?.isTimeoutDefault === true);
    if (silent !== undefined) {
      Annotations.of(scheduler).addWarningV2(
        `fairlead:undeclared-timeout:${type}`,
        `A job of type ${type} may take ${timeoutMs} ms: the function of fleet ${silent.fleet} has no timeout of its own, so it has Lambda's 3 seconds. Set the function's timeout, use WorkerFunction (5 minutes), or declare types.${type}.timeoutMs.`,
      );
    } else if (serving.every(({ fleet }) => !pool.handlers.has(fleet))) {
      Annotations.of(scheduler).addInfo(
        `A job of type ${type} may take ${timeoutMs} ms, the default for processes. Declare types.${type}.timeoutMs for another time.`,
      );
    }
  }
}
