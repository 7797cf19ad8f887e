/** The worker in Go: its first build takes minutes. */
import { afterEach, describe, expect, it } from 'vitest';
import { closeAll } from './attempts.ts';
import { examplesOf } from './examples.ts';
import { hasGo } from './servers.ts';

afterEach(closeAll);

describe('the example in Go', () => {
  if (hasGo) examplesOf('go');
  else it('has no Go here that could run it', () => expect(hasGo).toBe(false));
});
