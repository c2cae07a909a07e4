import http from 'node:http';
import net from 'node:net';
import type { ReadinessConfig } from '../../../config.ts';

/** How long one try may take; a server that is slower than this is not ready. */
const TRY_TIMEOUT_MS = 1_000;

/** Whether a backend answers now: takes a TCP connection, or an HTTP request without an error. */
export function isAnswering(
  readiness: ReadinessConfig,
  host: string,
  port: number,
): Promise<boolean> {
  switch (readiness.type) {
    case 'none':
      return Promise.resolve(true);
    case 'tcp':
      return takesConnection(host, port);
    case 'http':
      return answersHttp(host, port, readiness.path);
  }
}

function takesConnection(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: TRY_TIMEOUT_MS });
    for (const event of ['connect', 'timeout', 'error']) {
      socket.once(event, () => {
        socket.destroy();
        resolve(event === 'connect');
      });
    }
  });
}

function answersHttp(host: string, port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get(
      { host, port, path, agent: false, timeout: TRY_TIMEOUT_MS },
      (response) => {
        response.resume();
        resolve((response.statusCode ?? 500) < 400);
        request.destroy();
      },
    );
    for (const event of ['timeout', 'error']) {
      request.once(event, () => {
        request.destroy();
        resolve(false);
      });
    }
  });
}
