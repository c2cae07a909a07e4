import { startFaultProxy, type FaultProxy, type FaultyLine } from '../network/fault-proxy.ts';

/** A TCP address. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** How a line is cut: `silent` notifies neither side, like a real network; `refused` resets connections. */
export type Cut = 'silent' | 'refused';

/** The lines between datacenters: each takes its time, and each can be cut. */
export interface WideArea {
  /** A line from one datacenter to a target in another. @returns the URL where it begins. */
  lay(from: string, to: string, target: Place): Promise<string>;
  /**
   * One door to a target in a datacenter for all others, which are recognised by what they send:
   * `placeOf` names a datacenter. @returns the URL of the door.
   */
  layDoor(
    to: string,
    target: Place,
    placeOf: (piece: Buffer) => string | undefined,
  ): Promise<string>;
  /** How long bytes take, each way, from now on. */
  delay(delayMs: number): void;
  cut(a: string, b: string, how: Cut): void;
  /** Cuts only what goes through doors, silently, until {@link WideArea.heal}. */
  cutDoors(a: string, b: string): void;
  heal(a: string, b: string): void;
  isCut(a: string, b: string): boolean;
  close(): Promise<void>;
}

interface Line {
  readonly ends: readonly [string, string];
  readonly faults: FaultyLine;
  readonly isThroughDoor: boolean;
}

export function createWideArea(names: readonly string[], initialDelayMs: number): WideArea {
  const proxies: FaultProxy[] = [];
  const doors: FaultProxy[] = [];
  const lines: Line[] = [];
  const severed = new Set<string>();
  let delayMs = initialDelayMs;

  function linesBetween(a: string, b: string): Line[] {
    return lines.filter(({ ends }) => ends.includes(a) && ends.includes(b));
  }

  return {
    async lay(from, to, target) {
      const proxy = await startFaultProxy(target);
      proxies.push(proxy);
      proxy.delay(delayMs);
      lines.push({ ends: [from, to], faults: proxy, isThroughDoor: false });
      return proxy.url;
    },
    async layDoor(to, target, placeOf) {
      const door = await startFaultProxy(target, { placeOf });
      doors.push(door);
      door.delay(delayMs);
      for (const from of names.filter((name) => name !== to)) {
        const faults = door.from(from);
        faults.delay(delayMs);
        lines.push({ ends: [from, to], faults, isThroughDoor: true });
      }
      return door.url;
    },
    delay(nextMs) {
      delayMs = nextMs;
      for (const door of doors) door.delay(delayMs);
      for (const { faults } of lines) faults.delay(delayMs);
    },
    cut(a, b, how) {
      severed.add(pairOf(a, b));
      for (const { faults } of linesBetween(a, b)) {
        if (how === 'silent') faults.drop();
        else faults.refuse();
      }
    },
    cutDoors(a, b) {
      for (const { faults, isThroughDoor } of linesBetween(a, b)) if (isThroughDoor) faults.drop();
    },
    heal(a, b) {
      severed.delete(pairOf(a, b));
      for (const { faults } of linesBetween(a, b)) {
        faults.heal();
        faults.delay(delayMs);
      }
    },
    isCut: (a, b) => severed.has(pairOf(a, b)),
    async close() {
      await Promise.all([...proxies, ...doors].map((proxy) => proxy.close()));
    },
  };
}

function pairOf(a: string, b: string): string {
  return [a, b].sort().join(' ');
}
