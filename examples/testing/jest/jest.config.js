/** Jest runs the sources as they are: a project of yours has ts-jest, @swc/jest or babel-jest here. */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': '<rootDir>/types.cjs' },
};
