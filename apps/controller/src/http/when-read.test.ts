import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createBootClock } from '@leasehold/service-kit';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { keepSocket } from './socket-keeper.ts';

test('who has much to send waits until its peer has read most of it, or is gone', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => {
    server.close();
  });
  await once(server, 'listening');
  const url = `ws://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  const accepted = once(server, 'connection') as Promise<[WebSocket]>;
  const peer = new WebSocket(url);
  onTestFinished(() => {
    peer.terminate();
  });
  const [socket] = await accepted;
  await once(peer, 'open');
  const kept = keepSocket(socket, createBootClock());
  peer.pause();

  await kept.whenRead();
  for (let part = 0; part < 64; part += 1) socket.send('x'.repeat(256 * 1_024));
  const unread = socket.bufferedAmount;
  const read = kept.whenRead().then(() => socket.bufferedAmount);
  peer.resume();
  const left = await read;
  peer.pause();
  for (let part = 0; part < 64; part += 1) socket.send('x'.repeat(256 * 1_024));
  const gone = kept.whenRead();
  socket.terminate();
  await gone;

  expect(unread).toBeGreaterThan(1_024 * 1_024);
  expect(left).toBeLessThanOrEqual(256 * 1_024);
  await waitUntil(() => socket.readyState === socket.CLOSED);
});
