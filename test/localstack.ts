/**
 * `npm run test:localstack`: the contract and integration tests on LocalStack. Uses the one at LOCALSTACK_ENDPOINT;
 * without it, starts its container where Docker is there.
 */
import { spawn } from 'node:child_process';
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers';

const IMAGE = 'localstack/localstack:4.9';
const PORT = 4566;
const DOCKER_SOCKET = '/var/run/docker.sock';

async function startContainer(): Promise<StartedTestContainer> {
  try {
    return await new GenericContainer(IMAGE)
      .withExposedPorts(PORT)
      // LocalStack runs Lambda functions as containers of their own, beside it.
      .withBindMounts([{ source: DOCKER_SOCKET, target: DOCKER_SOCKET }])
      .withEnvironment({
        SERVICES: 'dynamodb,dynamodbstreams,sqs,events,lambda,cloudformation,iam,sts,ssm,s3,logs,ecr',
      })
      .withWaitStrategy(Wait.forHttp('/_localstack/health', PORT))
      .start();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.error(
      `fairlead: LocalStack's container did not start (${reason}); start Docker, or set LOCALSTACK_ENDPOINT to a running LocalStack`,
    );
    process.exit(1);
  }
}

const given = process.env.LOCALSTACK_ENDPOINT;
if (given !== undefined && given !== '' && !URL.canParse(given)) {
  console.error(
    `fairlead: LOCALSTACK_ENDPOINT is no URL: ${given}; set it to one such as http://127.0.0.1:4566`,
  );
  process.exit(2);
}
const container = given === undefined || given === '' ? await startContainer() : undefined;
const endpoint = container === undefined ? given : `http://127.0.0.1:${container.getMappedPort(PORT)}`;

// One after the other: it answers slowly, and a test beside another would wait for too long.
const parameters = ['run', '--project', 'integration', '--maxWorkers=1', ...process.argv.slice(2)];
const child = spawn('vitest', parameters, {
  stdio: 'inherit',
  env: {
    ...process.env,
    FAIRLEAD_TEST_ENDPOINT: endpoint,
    FAIRLEAD_TEST_REPORT: 'reports/vitest-localstack.json',
  },
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
const code = await new Promise<number>((resolve) => {
  child.on('error', (error) => {
    console.error(`fairlead: vitest did not start: ${error.message}`);
    resolve(1);
  });
  child.on('exit', (exitCode, signal) => resolve(exitCode ?? (signal === null ? 1 : 130)));
});
await container?.stop();
process.exitCode = code;
