import { once } from 'node:events';
import http from 'node:http';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { openGatewayStage, startBackend, type GatewayStage } from './testing/gateway-stage.ts';

/** A WebSocket through the gateway, and what it was sent. */
async function openSocket(
  { port }: GatewayStage,
  path: string,
): Promise<{ readonly socket: WebSocket; readonly messages: string[] }> {
  const socket = new WebSocket(`ws://127.0.0.1:${String(port)}${path}`);
  const messages: string[] = [];
  socket.on('message', (data: Buffer) => messages.push(data.toString()));
  socket.on('error', () => undefined);
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  return { socket, messages };
}

describe('passing', () => {
  test('a request by a token in the path arrives with who sent it, and without the token', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign({ sub: 'änna%', claims: { role: 'é' } });

    const reply = await stage.ask(`/t/${token}/a/b?c=d`, {
      headers: {
        referer: `http://x/t/${token}/`,
        cookie: `theme=dark; leasehold-gateway=${token}`,
        'x-leasehold-user': 'root',
        x_leasehold_user: 'root',
        'x-forwarded-for': '6.6.6.6',
      },
    });

    expect(reply.status).toBe(200);
    expect(reply.json.url).toBe('/a/b?c=d');
    expect(reply.json.headers).toMatchObject({
      'x-leasehold-user': '%C3%A4nna%25',
      'x-leasehold-claims': String.raw`{"role":"\u00e9"}`,
      'x-leasehold-key': 'room',
      'x-leasehold-fencing-token': '1',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-prefix': '/k/_/room',
      cookie: 'theme=dark',
    });
    expect(JSON.stringify(reply.json)).not.toContain(token);
    expect(stage.log()).not.toContain(token);
    expect(Object.keys(reply.json.headers)).not.toContain('x_leasehold_user');
    expect(reply.headers['referrer-policy']).toBe('no-referrer');
  });

  test('a body of any size arrives whole, and so does the answer', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const body = Buffer.alloc(5_000_000, 'x');

    const reply = await stage.ask(`/t/${token}/`, { method: 'POST', body });
    expect(reply.json.bytes).toBe(body.length);

    backend.handler = (_request, response) => void response.end(body);
    expect((await stage.ask(`/t/${token}/`)).body).toHaveLength(body.length);
  });

  test('pieces of an answer arrive when they are sent', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    let response: http.ServerResponse | undefined;
    backend.handler = (_request, to) => {
      response = to;
      to.writeHead(200, { 'content-type': 'text/event-stream' });
      to.write('data: 1\n\n');
    };
    const token = await stage.controller.sign();
    const request = http.get({ port: stage.port, path: `/t/${token}/events`, agent: false });
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    const [first] = (await once(answer, 'data')) as [Buffer];
    expect(first.toString()).toBe('data: 1\n\n');

    request.destroy();
    await waitUntil(() => response?.destroyed === true, { what: 'the end at the backend' });
  });

  test('a WebSocket passes messages in both directions', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();

    const { socket, messages } = await openSocket(stage, `/t/${token}/ws?a=b`);
    socket.send('hello');

    await waitUntil(() => messages.includes('one:hello'));
    const { url, headers } = JSON.parse(messages[0] ?? '') as {
      url: string;
      headers: Record<string, string>;
    };
    expect(url).toBe('/ws?a=b');
    expect(headers['x-leasehold-user']).toBe('anna');
    socket.close();
    await once(socket, 'close');
    await waitUntil(() => backend.sockets.size === 0);
  });
});

describe('fencing', () => {
  test('what is open ends with its grant, and the next request goes to the next one', async () => {
    const stage = await openGatewayStage();
    const [one, two] = [await startBackend('one'), await startBackend('two')];
    stage.controller.address = one.address;
    const token = await stage.controller.sign();
    const { socket } = await openSocket(stage, `/t/${token}/`);

    stage.controller.ended.add(stage.controller.leaseId);
    stage.controller.move(two.address);

    await once(socket, 'close');
    expect((await stage.ask(`/t/${token}/`)).json.name).toBe('two');
    expect(one.sockets.size).toBe(0);
  });

  test('nothing is passed once the validity is over, although the clock has not been looked at', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const { socket, messages } = await openSocket(stage, `/t/${token}/`);
    await waitUntil(() => messages.length === 1);
    stage.controller.beforeSync = () => new Promise(() => undefined);
    stage.controller.answerRoute = () => new Promise(() => undefined);

    // As after a freeze: the message is there before any timer has run.
    const arrived = backend.sockets.values().next().value;
    arrived?.prependListener('data', () => stage.skip(120_000));
    socket.send('stale');

    await once(socket, 'close');
    expect(messages).toHaveLength(1);
  });
});
