/** Settings with which programs use an emulator. */

export const EMULATOR_ACCOUNT = '000000000000';
export const EMULATOR_REGION = 'us-east-1';

/**
 * Returns environment variables for programs that use an emulator: its URL, and credentials that are valid nowhere
 * else.
 */
export const emulatorEnvironment = (endpoint: string): Readonly<Record<string, string>> => ({
  AWS_ENDPOINT_URL: endpoint,
  AWS_REGION: EMULATOR_REGION,
  AWS_DEFAULT_REGION: EMULATOR_REGION,
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
});
