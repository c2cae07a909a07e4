import type { ChildProcess } from 'node:child_process';
import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import type { Peer, Peers, ReservationService } from '@leasehold/keys-core/reservations';

/** A call of a process to another datacenter, which its parent plays. */
interface Asked {
  readonly type: 'ask';
  readonly id: number;
  readonly datacenter: string;
  readonly method: 'connect' | 'reservationStatus' | 'move';
  readonly args: readonly unknown[];
}

type Answered = { readonly type: 'answer'; readonly id: number } & (
  { readonly value: unknown } | { readonly code: ErrorCode; readonly message: string }
);

/** The other datacenters, for a child: every call is a message to the parent. */
export function peersThroughParent(names: readonly string[]): Peers {
  const waiting = new Map<number, (answer: Answered) => void>();
  let lastId = 0;
  process.on('message', (message: Answered) => {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  });
  async function ask<T>(
    datacenter: string,
    method: Asked['method'],
    args: readonly unknown[],
  ): Promise<T> {
    lastId += 1;
    const id = lastId;
    const answer = await new Promise<Answered>((resolve) => {
      waiting.set(id, resolve);
      process.send?.({ type: 'ask', id, datacenter, method, args } satisfies Asked);
    });
    if ('code' in answer) throw new LeaseError(answer.code, answer.message);
    return answer.value as T;
  }
  const peerOf = (datacenter: string): Peer => ({
    datacenter,
    assertReachable: () => undefined,
    connect: (input, caller) => ask(datacenter, 'connect', [input, caller]),
    reservationStatus: (reservationId, key) =>
      ask(datacenter, 'reservationStatus', [reservationId, key]),
    move: (input, caller) => ask(datacenter, 'move', [input, caller]),
  });
  return { names, get: (name) => (names.includes(name) ? peerOf(name) : undefined) };
}

/** The parent's end: answers for the datacenters that it plays. */
export function answerChild(
  child: ChildProcess,
  serviceOf: (datacenter: string) => ReservationService,
): void {
  child.on('message', (message: Asked | { readonly type: 'other' }) => {
    if (message.type !== 'ask') return;
    void answerTo(message, serviceOf(message.datacenter)).then((answer) => {
      if (child.connected) child.send(answer);
    });
  });
}

async function answerTo(
  { id, method, args }: Asked,
  service: ReservationService,
): Promise<Answered> {
  try {
    return { type: 'answer', id, value: await call(service, method, args) };
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    return { type: 'answer', id, code: error.code, message: error.message };
  }
}

function call(
  service: ReservationService,
  method: Asked['method'],
  args: readonly unknown[],
): Promise<unknown> {
  const [first, second] = args as [never, never];
  switch (method) {
    case 'connect':
      return service.connectHere(first, second, new AbortController().signal);
    case 'reservationStatus':
      return service.reservationStatus(first, second);
    case 'move':
      return service.moveHere(first, second);
  }
}
