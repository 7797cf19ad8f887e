/** A way to an endpoint that can be cut, for those who go by it alone. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';

export interface Cut {
  readonly url: string;
  /** While it is, whoever asks loses its connection, unanswered. */
  isCut: boolean;
  /** Requests that were cut off. */
  readonly refused: () => number;
  readonly close: () => Promise<void>;
}

export async function cutTo(endpoint: string): Promise<Cut> {
  let refused = 0;
  const pass = (asked: IncomingMessage, answer: ServerResponse): void => {
    const { method, headers, url = '/' } = asked;
    const further = request(new URL(url, endpoint), { method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
    });
    further.on('error', () => answer.destroy());
    asked.pipe(further);
  };
  const server = createServer((asked, answer) => {
    if (!cut.isCut) {
      pass(asked, answer);
      return;
    }
    refused += 1;
    asked.socket.destroy();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const cut: Cut = {
    url: `http://127.0.0.1:${address.port}`,
    isCut: false,
    refused: () => refused,
    close: async () => {
      const closed = new Promise((done) => server.close(done));
      server.closeAllConnections();
      await closed;
    },
  };
  return cut;
}
