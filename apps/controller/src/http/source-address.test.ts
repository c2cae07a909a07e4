import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { createSourceAddress, isTrustedProxy } from './source-address.ts';

/** The source of a request from a peer with this address, with this `x-forwarded-for` header. */
function sourceOf(trusted: string[], peer: string, forwardedFor?: string): string | null {
  const request = new IncomingMessage(new Socket());
  Object.defineProperty(request.socket, 'remoteAddress', { value: peer });
  if (forwardedFor !== undefined) request.headers['x-forwarded-for'] = forwardedFor;
  return createSourceAddress(trusted)(request);
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
  const texts = ['10.0.0.0/8', '::1', 'loopback', '10.0.0.0/33', 'example.com', '', '10.0.0'];

  expect(texts.filter(isTrustedProxy)).toEqual(['10.0.0.0/8', '::1']);
});
