/** `fairlead/testing`: the embedded emulator, on which a stack can be deployed without an AWS account. */
export { EnvironmentError } from '../core/errors.ts';
export { type Emulator, type EmulatorExit, type EmulatorOptions, startEmulator } from './emulator.ts';
export { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from './environment.ts';
