import type { Socket } from 'node:net';

/** Which way bytes go: `up` from the side that connected to the target, `down` back. */
export type Direction = 'up' | 'down';

/** What is wrong at this moment, for all connections that share it. */
export class Faults {
  readonly dropped = new Set<Direction>();
  readonly delayMs: Record<Direction, number> = { up: 0, down: 0 };
  /** Each connection has a share of its own of this, in addition. */
  spreadMs = 0;
  isHolding = false;
  isRefusing = false;
  lostBytesCount = 0;
}

/** A piece that goes one way, in order: `end` means that no more will come. */
interface Parcel {
  readonly dueAtMs: number;
  readonly content: Buffer | 'end';
}

/** One way of a connection: bytes come out in the order in which they went in, whatever the delay. */
class Way {
  readonly #to: Socket;
  readonly #waiting: Parcel[] = [];

  constructor(to: Socket) {
    this.#to = to;
  }

  send(content: Buffer | 'end', delayMs: number): void {
    if (delayMs === 0 && this.#waiting.length === 0) {
      this.#deliver(content);
      return;
    }
    this.#waiting.push({ dueAtMs: performance.now() + delayMs, content });
    if (this.#waiting.length === 1) this.#wait(delayMs);
  }

  #wait(delayMs: number): void {
    setTimeout(() => {
      this.#deliverDue();
    }, delayMs).unref();
  }

  #deliverDue(): void {
    const nowMs = performance.now();
    while (this.#waiting[0] !== undefined && this.#waiting[0].dueAtMs <= nowMs) {
      this.#deliver(this.#waiting[0].content);
      this.#waiting.shift();
    }
    const next = this.#waiting[0];
    if (next !== undefined) this.#wait(next.dueAtMs - nowMs);
  }

  #deliver(content: Buffer | 'end'): void {
    if (content === 'end') this.#to.destroySoon();
    else if (!this.#to.destroyed) this.#to.write(content);
  }
}

/** A connection through a proxy: two sockets, and what is wrong between them. */
export class FaultLink {
  /** Changed when the place at the near end is recognised. */
  faults: Faults;
  readonly #near: Socket;
  readonly #far: Socket;
  readonly #shares: Record<Direction, number> = { up: Math.random(), down: Math.random() };
  #hasHole = false;

  /** `look` sees every piece that comes from the near end, before it goes anywhere. */
  constructor(
    sockets: { readonly near: Socket; readonly far: Socket },
    options: {
      readonly faults: Faults;
      readonly look: (piece: Buffer, link: FaultLink) => void;
      readonly onClosed: () => void;
    },
  ) {
    this.faults = options.faults;
    this.#near = sockets.near;
    this.#far = sockets.far;
    const ways = [
      { from: this.#near, to: this.#far, direction: 'up' },
      { from: this.#far, to: this.#near, direction: 'down' },
    ] as const;
    for (const { from, to, direction } of ways) {
      const way = new Way(to);
      from.setNoDelay(true);
      from.on('error', () => undefined);
      from.on('data', (piece: Buffer) => {
        if (direction === 'up') options.look(piece, this);
        this.#pass(way, direction, piece);
      });
      from.on('close', () => {
        options.onClosed();
        // An end is sent as a packet as well.
        if (!this.faults.dropped.has(direction)) way.send('end', this.#delayMs(direction));
      });
    }
    if (this.faults.isHolding) this.hold();
  }

  /** Whether further bytes would be garbage, because some before them were lost. */
  get isBroken(): boolean {
    return this.#hasHole || this.#near.destroyed || this.#far.destroyed;
  }

  /** Stops reading answers: they are passed on later, in order and without loss. */
  hold(): void {
    this.#far.pause();
  }

  resume(): void {
    this.#far.resume();
  }

  reset(): void {
    for (const socket of [this.#near, this.#far]) {
      if (socket.connecting) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  #pass(way: Way, direction: Direction, piece: Buffer): void {
    const { faults } = this;
    if (faults.dropped.has(direction)) {
      this.#hasHole = true;
      faults.lostBytesCount += piece.length;
      return;
    }
    way.send(piece, this.#delayMs(direction));
  }

  #delayMs(direction: Direction): number {
    return this.faults.delayMs[direction] + this.faults.spreadMs * this.#shares[direction];
  }
}
