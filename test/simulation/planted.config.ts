/** Runs tests with a planted bug, the one that FAIRLEAD_PLANTED names. */
import { defineConfig } from 'vitest/config';
import { changeSource } from './changed.ts';
import { PLANTED } from './planted.ts';

const changes = PLANTED[process.env.FAIRLEAD_PLANTED ?? '']?.changes ?? [];

export default defineConfig({
  plugins: [
    {
      name: 'planted',
      enforce: 'pre',
      transform: (code, id) => {
        const own = changes.filter(({ file }) => id.endsWith(`/${file}`));
        return own.length === 0 ? undefined : own.reduce(changeSource, code);
      },
    },
  ],
  // What is cached says nothing of what is planted.
  test: {
    include: ['test/**/*.test.ts'],
    reporters: ['json'],
    fsModuleCache: false,
    // Of tests on an emulator: the one that is there.
    ...(process.env.FAIRLEAD_TEST_ENDPOINT === undefined ? {} : { globalSetup: 'test/global-setup.ts' }),
  },
});
