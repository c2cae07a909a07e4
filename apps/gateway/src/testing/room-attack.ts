/** Clients that ask rooms through a gateway, while backends, drones and networks fail; a judge notes each answer. */
import http, { type IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { seed, startFaultProxy, type FaultProxy, type GatewayProcess } from '@leasehold/testing';
import { WebSocket } from 'ws';
import { portOf, type Rooms } from './rooms.ts';
import { StaleJudge } from './stale-judge.ts';

export const FAULTS = [
  'revoke',
  'kill_drone',
  'freeze_gateway',
  'revoke',
  'freeze_drone',
  'cut_off_gateway',
  'terminate',
  'cut_off_drone',
] as const;
export type Fault = (typeof FAULTS)[number];

interface Attack {
  readonly keys: number;
  readonly drones: number;
  /** Requests that are answered by a backend: those that are refused come on top. */
  readonly requests: number;
  readonly sockets: number;
  /** How many of them ask at once. */
  readonly clients: number;
  /** One after the other, each at least once, and again until all requests were answered. */
  readonly faults: readonly Fault[];
  /** Between a fault and the next. */
  readonly pauseMs: number;
  /** Between an answer and the next request of a client. */
  readonly thinkMs: number;
}

export interface AttackReport {
  readonly judge: StaleJudge;
  readonly counts: { answered: number; refused: number; messages: number; grants: number };
}

/** Longer than the grant of a key: others may have it afterwards. */
const FAULT_MS = 8_000;
/** Between a refusal and the next request of a client: what is refused at once must not take all of the machine. */
const REFUSED_MS = 100;
/** How often a WebSocket is sent a message. */
const MESSAGE_MS = 200;

interface Scene {
  readonly rooms: Rooms;
  readonly gateway: GatewayProcess;
  /** In front of the controller, for the gateway and for each drone. */
  readonly fronts: { readonly gateway: FaultProxy; readonly drones: readonly FaultProxy[] };
  readonly tokens: readonly string[];
  readonly judge: StaleJudge;
  readonly counts: AttackReport['counts'];
  readonly random: () => number;
  isOver: boolean;
  faultsMade: number;
}

export async function attackRooms(rooms: Rooms, attack: Attack): Promise<AttackReport> {
  const scene = await openScene(rooms, attack);
  const sockets = Array.from({ length: attack.sockets }, (_socket, at) =>
    keepSocket(scene, at % attack.keys),
  );
  const faults = makeFaults(scene, attack);
  await Promise.all(Array.from({ length: attack.clients }, () => askOften(scene, attack)));
  scene.isOver = true;
  await Promise.all([faults, ...sockets]);
  const [row] = await rooms.query<{ grants: number }>(
    `select count(distinct (name, fencing_token))::int as grants from lease_event
     where face = 'key' and kind in ('granted', 'taken_over')`,
  );
  scene.counts.grants = row?.grants ?? 0;
  return { judge: scene.judge, counts: scene.counts };
}

async function openScene(rooms: Rooms, { keys, drones }: Attack): Promise<Scene> {
  const front = async (): Promise<FaultProxy> => {
    const proxy = await startFaultProxy({ host: '127.0.0.1', port: rooms.controller().port });
    rooms.onClose(() => proxy.close());
    return proxy;
  };
  const fronts: FaultProxy[] = [];
  for (let at = 1; at <= drones; at += 1) {
    const own = await front();
    fronts.push(own);
    await rooms.startDrone({ droneId: `drone-${String(at)}`, controllerUrls: [own.url] });
  }
  const ofGateway = await front();
  const gateway = await rooms.startGateway({ controllerUrls: [ofGateway.url] });
  const tokens: string[] = [];
  for (let key = 0; key < keys; key += 1) tokens.push((await rooms.connect(keyName(key))).token);
  return {
    rooms,
    gateway,
    tokens,
    fronts: { gateway: ofGateway, drones: fronts },
    judge: new StaleJudge(),
    counts: { answered: 0, refused: 0, messages: 0, grants: 0 },
    random: randomFrom(seed()),
    isOver: false,
    faultsMade: 0,
  };
}

function keyName(key: number): string {
  return `room-${String(key)}`;
}

/** Repeats itself for the same seed. */
function randomFrom(first: number): () => number {
  let state = first >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

async function askOften(scene: Scene, attack: Attack): Promise<void> {
  const { gateway, tokens, judge, counts, random } = scene;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const isEnough = (): boolean =>
    counts.answered >= attack.requests && scene.faultsMade >= attack.faults.length;
  while (!isEnough()) {
    const key = Math.floor(random() * tokens.length);
    const sentAtMs = Date.now();
    const token = await answerOf(portOf(gateway), tokens[key] ?? '', agent);
    if (token === undefined) counts.refused += 1;
    else {
      counts.answered += 1;
      judge.note({ key: keyName(key), token, sentAtMs });
    }
    await pause(token === undefined ? REFUSED_MS : attack.thinkMs);
  }
  agent.destroy();
}

/** The fencing token in an answer; undefined when it was refused or cut. */
function answerOf(port: number, token: string, agent: http.Agent): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = http.get({ port, host: '127.0.0.1', path: `/t/${token}/`, agent });
    request.on('error', () => resolve(undefined));
    request.on('response', (response: IncomingMessage) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('error', () => resolve(undefined));
      response.on('close', () => resolve(response.statusCode === 200 ? tokenIn(text) : undefined));
    });
  });
}

/** Undefined for an answer that was cut. */
function tokenIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { token: string }).token;
  } catch {
    return undefined;
  }
}

/** A WebSocket that is opened again whenever it ends. Each message carries when it was sent. */
async function keepSocket(scene: Scene, key: number): Promise<void> {
  while (!scene.isOver) {
    await useSocket(scene, key);
    await pause(MESSAGE_MS);
  }
}

function useSocket(scene: Scene, key: number): Promise<void> {
  const { gateway, tokens, judge, counts } = scene;
  const socket = new WebSocket(`ws://127.0.0.1:${String(portOf(gateway))}/t/${tokens[key] ?? ''}/`);
  const timer = setInterval(() => {
    if (scene.isOver) socket.terminate();
    else if (socket.readyState === WebSocket.OPEN) socket.send(String(Date.now()));
  }, MESSAGE_MS);
  socket.on('message', (data: Buffer) => {
    const [token = '', sentAtMs] = data.toString().split(' ');
    counts.messages += 1;
    judge.note({ key: keyName(key), token, sentAtMs: Number(sentAtMs) });
  });
  return new Promise((resolve) => {
    const end = (): void => {
      clearInterval(timer);
      resolve();
    };
    socket.on('error', end).on('close', end);
  });
}

async function makeFaults(scene: Scene, { faults, pauseMs }: Attack): Promise<void> {
  for (; !scene.isOver; scene.faultsMade += 1) {
    await pause(pauseMs);
    const fault = faults[scene.faultsMade % faults.length];
    // What cannot be made now, such as the revocation of a key that nobody has, is not made.
    if (fault !== undefined) await MAKE[fault](scene).catch(() => undefined);
  }
}

const MAKE: Readonly<Record<Fault, (scene: Scene) => Promise<void>>> = {
  async revoke({ rooms, tokens, random }) {
    const name = keyName(Math.floor(random() * tokens.length));
    const { leaseId } = await rooms.connect(name);
    await rooms.api().keys.revoke.mutate({ leaseId, mode: 'force', reason: 'a fault' });
  },
  async terminate({ rooms, tokens, random }) {
    const { backendId } = await rooms.connect(keyName(Math.floor(random() * tokens.length)));
    await rooms.api().backends.terminate.mutate({ backendId, mode: 'hard' });
  },
  async kill_drone({ rooms, random }) {
    const drone = anyOf(rooms.drones, random);
    await drone.killWarden();
    await drone.agent.kill();
    await drone.startAgent();
  },
  async freeze_drone({ rooms, random }) {
    const drone = anyOf(rooms.drones, random);
    drone.signalWarden('SIGSTOP');
    drone.agent.signal('SIGSTOP');
    await pause(FAULT_MS);
    drone.signalWarden('SIGCONT');
    drone.agent.signal('SIGCONT');
  },
  async freeze_gateway({ gateway }) {
    gateway.signal('SIGSTOP');
    await pause(FAULT_MS);
    gateway.signal('SIGCONT');
  },
  async cut_off_gateway({ fronts }) {
    fronts.gateway.drop();
    await pause(FAULT_MS);
    fronts.gateway.heal();
  },
  async cut_off_drone({ fronts, random }) {
    const front = anyOf(fronts.drones, random);
    front.drop();
    await pause(FAULT_MS);
    front.heal();
  },
};

function anyOf<Item>(items: readonly Item[], random: () => number): Item {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error('there is nothing to choose from');
  return item;
}
