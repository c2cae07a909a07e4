/** A controller, drones whose program is a room, and a gateway: what ships, as it ships. */
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import type { ControllerApi } from '@leasehold/client';
import {
  forTest,
  freePort,
  Stage,
  waitUntil,
  type DroneOptions,
  type GatewayOptions,
  type GatewayProcess,
  type StageDrone,
  type StageOptions,
} from '@leasehold/testing';
import { WebSocket } from 'ws';
import { ask, type AskOptions, type Reply } from './gateway-stage.ts';

type ConnectInput = Parameters<ControllerApi['keys']['connect']['mutate']>[0];
type SignInput = Parameters<ControllerApi['gateway']['sign']['mutate']>[0];
export type Connected = Awaited<ReturnType<ControllerApi['keys']['connect']['mutate']>>;

/** With time to pass something after the last answer of a controller, on a busy machine too. */
export const LADDER = {
  renewAfterMs: 1_500,
  softAfterMs: 8_000,
  hardAfterMs: 9_000,
  ttlMs: 11_000,
};

export class Rooms extends Stage {
  #port = 0;

  /** Its drones and gateways are not started yet. */
  static async open(options: StageOptions = {}): Promise<Rooms> {
    const port = await freePort();
    const env = {
      LEASEHOLD_HEARTBEAT_MS: '700',
      LEASEHOLD_GATEWAY_URL: `http://127.0.0.1:${String(port)}`,
      ...options.env,
    };
    const rooms = new Rooms(forTest({ ...options, env }));
    rooms.#port = port;
    return rooms.begin();
  }

  override startDrone(options: Partial<DroneOptions> = {}): Promise<StageDrone> {
    const room = path.join(this.folder, 'room.mjs');
    copyFileSync(path.join(import.meta.dirname, 'room.mjs'), room);
    const programs = {
      room: { command: process.execPath, args: [room] },
      crash: { command: process.execPath, args: ['-e', 'process.exit(17)'] },
    };
    const config = { capacity: 100, ...options.config };
    return super.startDrone({ droneId: 'drone-1', programs, ...options, config });
  }

  /** The first is where the controllers say that browsers reach keys. */
  override startGateway(options: GatewayOptions = {}): Promise<GatewayProcess> {
    const port = options.port ?? (options.gatewayId === undefined ? this.#port : 0);
    return super.startGateway({ ...options, port });
  }

  /** Connects to a room, and lets a user in; by default one whose requests may start it again. */
  async connect(
    name: string,
    {
      access,
      ...options
    }: Omit<Partial<ConnectInput>, 'access'> & { access?: Partial<SignInput['access']> } = {},
  ): Promise<Connected & { readonly url: string; readonly token: string }> {
    const key = { name };
    const spawn = { program: 'room' };
    const connected = await this.api().keys.connect.mutate({
      key,
      spawn,
      waitFor: 'ready',
      ...options,
    });
    const mayStart = access?.mayStart ?? access?.grantOnly !== true;
    const { url, token } = await this.api().gateway.sign.mutate({
      key,
      access: { user: 'anna', ...access, mayStart },
      ...(mayStart ? { spawn } : {}),
    });
    return { ...connected, url, token };
  }

  /** Opens a WebSocket to a room, which is closed with the stage. */
  async openSocket(gateway: GatewayProcess, token: string): Promise<RoomSocket> {
    const socket = new WebSocket(`ws://127.0.0.1:${String(portOf(gateway))}/t/${token}/`);
    this.onClose(() => socket.terminate());
    const messages: string[] = [];
    let isClosed = false;
    socket.on('message', (data: Buffer) => messages.push(data.toString()));
    socket.on('error', () => undefined);
    socket.on('close', () => (isClosed = true));
    await once(socket, 'open');
    return { socket, messages, isClosed: () => isClosed };
  }

  /** Asks a room through a gateway. */
  ask(
    gateway: GatewayProcess,
    token: string,
    options: AskOptions & { path?: string } = {},
  ): Promise<Reply & { readonly token: string }> {
    const { path: rest = '/', ...asked } = options;
    return ask(portOf(gateway), `/t/${token}${rest}`, asked).then((reply) => ({
      ...reply,
      token: (reply.json as unknown as { token: string }).token,
    }));
  }
}

export function portOf({ url }: GatewayProcess): number {
  return Number(new URL(url).port);
}

/** A WebSocket to a room, and what came back. */
interface RoomSocket {
  readonly socket: WebSocket;
  /** `<fencing token> <text>` */
  readonly messages: string[];
  readonly isClosed: () => boolean;
}

/** What a room answers to a text. */
export async function echoOf({ socket, messages }: RoomSocket, text: string): Promise<string> {
  socket.send(text);
  return waitUntil(() => messages.find((one) => one.endsWith(` ${text}`)));
}
