import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { FaultLink, Faults, type Direction } from './fault-link.ts';

export type { Direction } from './fault-link.ts';

/**
 * How a network between two places fails. Sockets stay open under every fault but `cut` and `refuse`:
 * neither side is notified, as with packets that are dropped.
 */
export interface FaultyLine {
  /**
   * Loses everything that is sent in these directions, by default both, until {@link FaultyLine.heal}.
   * Connections made meanwhile are accepted and get no answer, which is the worst case of a network.
   */
  drop(...directions: Direction[]): void;
  /** Delays every byte by so many milliseconds; by default the same in both directions. */
  delay(upMs: number, downMs?: number): void;
  /**
   * Delays each connection by a time of its own, up to so many milliseconds, in addition to the delay: what is
   * sent on one may arrive before what was sent earlier on another.
   */
  spread(upToMs: number): void;
  /** Holds answers back, also those of connections made from now on, until {@link FaultyLine.heal}. */
  hold(): void;
  /** Resets every connection. */
  cut(): void;
  /** Resets every connection, those made from now on too, until {@link FaultyLine.heal}. */
  refuse(): void;
  /**
   * Ends dropping, delaying, holding and refusing. Connections that lost bytes are reset: bytes
   * after a gap in a stream would be garbage, which TCP never delivers.
   */
  heal(): void;
}

/** A TCP proxy that behaves as networks do when they fail. */
export interface FaultProxy extends FaultyLine {
  readonly host: string;
  readonly port: number;
  /** For clients that speak HTTP. */
  readonly url: string;
  /** How many connections are open. */
  readonly connectionsCount: number;
  /** How many bytes were lost so far. */
  readonly lostBytesCount: number;
  /** Where connections made from now on go to. */
  setTarget(target: { readonly host: string; readonly port: number }): void;
  /** The connections from one place; those from an unknown place are the proxy's own. */
  from(place: string): FaultyLine;
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  /** By default any free one. */
  readonly port?: number | undefined;
  /** Which place a connection comes from, by what it sends; asked until it is known. */
  readonly placeOf?: ((piece: Buffer) => string | undefined) | undefined;
}

/** Starts a proxy before the server of a URL. @returns the proxy, and the URL through it. */
export async function startUrlProxy(target: string): Promise<{ proxy: FaultProxy; url: string }> {
  const url = new URL(target);
  const proxy = await startFaultProxy({ host: url.hostname, port: Number(url.port) });
  [url.hostname, url.port] = [proxy.host, String(proxy.port)];
  return { proxy, url: url.href };
}

/** Starts a proxy on 127.0.0.1. */
export async function startFaultProxy(
  target: { readonly host: string; readonly port: number },
  options: FaultProxyOptions = {},
): Promise<FaultProxy> {
  const links = new Set<FaultLink>();
  /** Also those of links of which one end is gone and the other was not notified. */
  const sockets = new Set<Socket>();
  const nowhere = new Faults();
  const places = new Map<string, Faults>();
  let aim = target;

  function faultsOf(place: string): Faults {
    const known = places.get(place) ?? new Faults();
    places.set(place, known);
    return known;
  }

  function recognise(piece: Buffer, link: FaultLink): void {
    if (link.faults !== nowhere) return;
    const place = options.placeOf?.(piece);
    if (place === undefined) return;
    link.faults = faultsOf(place);
    if (link.faults.isHolding) link.hold();
    if (link.faults.isRefusing) link.reset();
  }

  const reset = (which: (link: FaultLink) => boolean): void => {
    for (const link of [...links].filter(which)) {
      links.delete(link);
      link.reset();
    }
  };

  const server = createServer((near) => {
    near.on('error', () => undefined);
    if (nowhere.isRefusing) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(aim.port, aim.host);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    const link: FaultLink = new FaultLink(
      { near, far },
      { faults: nowhere, look: recognise, onClosed: () => links.delete(link) },
    );
    links.add(link);
  });

  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    ...lineOf(nowhere, links, reset),
    host: '127.0.0.1',
    port,
    url: `http://127.0.0.1:${String(port)}`,
    get connectionsCount() {
      return links.size;
    },
    get lostBytesCount() {
      return [nowhere, ...places.values()].reduce((sum, faults) => sum + faults.lostBytesCount, 0);
    },
    setTarget(next) {
      aim = next;
    },
    from: (place) => lineOf(faultsOf(place), links, reset),
    async close() {
      server.close();
      reset(() => true);
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

function lineOf(
  faults: Faults,
  links: ReadonlySet<FaultLink>,
  reset: (which: (link: FaultLink) => boolean) => void,
): FaultyLine {
  const isOwn = (link: FaultLink): boolean => link.faults === faults;
  return {
    drop(...directions) {
      for (const direction of directions.length > 0 ? directions : (['up', 'down'] as const)) {
        faults.dropped.add(direction);
      }
    },
    delay(upMs, downMs = upMs) {
      Object.assign(faults.delayMs, { up: upMs, down: downMs });
    },
    spread(upToMs) {
      faults.spreadMs = upToMs;
    },
    hold() {
      faults.isHolding = true;
      for (const link of links) if (isOwn(link)) link.hold();
    },
    cut() {
      reset(isOwn);
    },
    refuse() {
      faults.isRefusing = true;
      reset(isOwn);
    },
    heal() {
      faults.dropped.clear();
      Object.assign(faults.delayMs, { up: 0, down: 0 });
      faults.spreadMs = 0;
      faults.isHolding = false;
      faults.isRefusing = false;
      for (const link of links) if (isOwn(link)) link.resume();
      reset((link) => isOwn(link) && link.isBroken);
    },
  };
}
