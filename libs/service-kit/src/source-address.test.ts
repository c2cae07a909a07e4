import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import {
  CALLER_HEADER,
  CONSOLE_SECRET_HEADER,
  createSources,
  isTrustedProxy,
  networkOf,
} from './connections.ts';

/** The source of a request from a peer with this address, with this `x-forwarded-for` header. */
function sourceOf(trusted: string[], peer: string, forwardedFor?: string): string | null {
  const request = new IncomingMessage(new Socket());
  Object.defineProperty(request.socket, 'remoteAddress', { value: peer });
  if (forwardedFor !== undefined) request.headers['x-forwarded-for'] = forwardedFor;
  return createSources({ trustedProxies: trusted }).of(request);
}

test('the address of a direct caller is its own, whatever its headers claim', () => {
  expect(sourceOf(['127.0.0.1/32'], '192.0.2.7', '198.51.100.1')).toBe('192.0.2.7');
  expect(sourceOf([], '127.0.0.1', '198.51.100.1')).toBe('127.0.0.1');
});

test('a trusted proxy is believed, also where its address is shown as IPv6', () => {
  const trusted = ['127.0.0.1/32', '::1/128'];

  for (const peer of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
    expect(sourceOf(trusted, peer, '198.51.100.1')).toBe('198.51.100.1');
    expect(sourceOf(trusted, peer, '2001:db8::1')).toBe('2001:db8::1');
  }
});

test('the last address that is not a trusted proxy counts, because those before it may be invented', () => {
  const trusted = ['127.0.0.1/32', '10.0.0.0/8'];

  expect(sourceOf(trusted, '127.0.0.1', '1.1.1.1, 198.51.100.1, 10.1.2.3')).toBe('198.51.100.1');
});

test.each([
  ['unknown', '127.0.0.1'],
  ['198.51.100.1, _hidden, 10.1.2.3', '10.1.2.3'],
  ['198.51.100.1, , 10.1.2.3', '10.1.2.3'],
  ['198.51.100.1:1234', '127.0.0.1'],
  ['"[2001:db8::1]:80"', '127.0.0.1'],
  ['fe80::1%made-up', '127.0.0.1'],
  ['', '127.0.0.1'],
  ['evil text, 198.51.100.1', '198.51.100.1'],
])('text that is no address is ignored, with everything before it: %s', (said, source) => {
  expect(sourceOf(['127.0.0.1/32', '10.0.0.0/8'], '127.0.0.1', said)).toBe(source);
});

test('only networks and addresses may be trusted', () => {
  const texts = [
    '10.0.0.0/8',
    '::1',
    'loopback',
    '10.0.0.0/33',
    '0.0.0.0/0',
    '::/0',
    'example.com',
    '',
    '10.0.0',
  ];

  expect(texts.filter(isTrustedProxy)).toEqual(['10.0.0.0/8', '::1']);
});

const SECRET = 'the secret of this console and its controllers';

function sourcesFor(headers: Record<string, string>, peer = '127.0.0.1') {
  const request = new IncomingMessage(new Socket());
  Object.defineProperty(request.socket, 'remoteAddress', { value: peer });
  Object.assign(request.headers, headers);
  let wrongCount = 0;
  const sources = createSources({
    trustedProxies: [],
    consoleSecret: SECRET,
    onWrongSecret: () => {
      wrongCount += 1;
    },
  });
  return { source: sources.of(request), isFromProxy: sources.isFromProxy(request), wrongCount };
}

test('a console is believed by its secret, wherever it is', () => {
  const headers = { [CONSOLE_SECRET_HEADER]: SECRET, [CALLER_HEADER]: '198.51.100.1' };

  for (const peer of ['127.0.0.1', '192.0.2.7', '2001:db8::7']) {
    expect(sourcesFor(headers, peer)).toEqual({
      source: '198.51.100.1',
      isFromProxy: true,
      wrongCount: 0,
    });
  }
});

test.each(['', 'x', SECRET.toUpperCase(), `${SECRET} `])(
  'a caller with another secret is where its connection comes from: %j',
  (secret) => {
    const headers = {
      [CONSOLE_SECRET_HEADER]: secret,
      [CALLER_HEADER]: '198.51.100.1',
      'x-forwarded-for': '198.51.100.2',
    };

    expect(sourcesFor(headers)).toEqual({
      source: '127.0.0.1',
      isFromProxy: false,
      wrongCount: 1,
    });
  },
);

test('a caller without a secret is not believed, on this machine either', () => {
  const headers = { [CALLER_HEADER]: '198.51.100.1', 'x-forwarded-for': '198.51.100.2' };

  expect(sourcesFor(headers)).toEqual({ source: '127.0.0.1', isFromProxy: false, wrongCount: 0 });
});

test.each(['unknown', '', '198.51.100.1, 127.0.0.1', 'fe80::1%x'])(
  'a console that names no address is the caller itself: %j',
  (said) => {
    const headers = { [CONSOLE_SECRET_HEADER]: SECRET, [CALLER_HEADER]: said };

    expect(sourcesFor(headers).source).toBe('127.0.0.1');
  },
);

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8::7', '2001:db8:0:0::/64'],
  ['2001:DB8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
