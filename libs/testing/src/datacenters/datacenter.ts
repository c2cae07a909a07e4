import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { bootstrapCredentials, type Credentials } from '@leasehold/keys-core/access';
import { openStore } from '@leasehold/keys-core/postgres';
import { connectionOf, createBootClock, systemIds } from '@leasehold/service-kit';
import pg from 'pg';
import {
  startControllerProcess,
  startDroneProcess,
  type ControllerProcess,
  type DroneProcess,
} from '../leasehold-processes.ts';
import { waitUntil } from '../wait-until.ts';
import type { DatabaseOf } from './databases.ts';

/** Whose token a caller has. */
export type DatacenterRole = 'admin' | 'operator' | 'client' | 'viewer';

/** The programs of a datacenter, where they are not the apps' own files. */
export interface DatacenterEntries {
  readonly controller: string;
  readonly drone: string;
}

/** How to start one datacenter. */
export interface DatacenterPlan {
  readonly name: string;
  /** A folder of its own. */
  readonly folder: string;
  readonly port: number;
  /** Where its drone's backends listen. */
  readonly backendPorts: { readonly from: number; readonly to: number };
  readonly databaseOf: DatabaseOf;
  /** Settings of its controller, such as its peers and its etcd. */
  readonly env: Readonly<Record<string, string>>;
  readonly entries?: DatacenterEntries | undefined;
  /** What its drone offers, as in a drone's config file; undefined: no drone. */
  readonly programs: Readonly<Record<string, unknown>> | undefined;
}

/** A datacenter that runs: a database, a controller, and a drone. */
export interface Datacenter {
  readonly name: string;
  /** Its controller, as its own clients reach it. */
  readonly url: string;
  readonly databaseUrl: string;
  readonly credentials: Credentials;
  /** The id of its drone. */
  readonly droneId: string;
  /** Its present controller. */
  controller(): ControllerProcess;
  /** Its controller's API, over HTTP. */
  api(role: DatacenterRole): ControllerApi;
  /** Reads rows of its database directly, without the controller. */
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** `kill -9`, and nothing listens on its port. */
  killController(): Promise<void>;
  /** Starts the controller again, on the same port. @throws when it does not start. */
  restartController(): Promise<void>;
  close(): Promise<void>;
}

const DRONE_READY_MS_MAX = 20_000;

/** Starts one, and returns when a backend could be placed in it. */
export async function startDatacenter(plan: DatacenterPlan): Promise<Datacenter> {
  const enders: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    while (enders.length > 0) await enders.pop()?.();
  };
  try {
    return await put(plan, enders, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function put(
  plan: DatacenterPlan,
  enders: (() => Promise<unknown>)[],
  close: () => Promise<void>,
): Promise<Datacenter> {
  const { name, folder, port } = plan;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const database = await plan.databaseOf(name);
  enders.push(() => database.drop());
  const sql = new pg.Pool({ ...connectionOf(database.url), max: 4 });
  sql.on('error', () => undefined);
  enders.push(() => sql.end());
  const droneId = `drone-${name}`;
  const credentials = await credentialsIn(database.url, { name, folder, droneId });
  const launch = (): Promise<ControllerProcess> =>
    startControllerProcess({
      databaseUrl: database.url,
      home: folder,
      port,
      entry: plan.entries?.controller,
      env: { LEASEHOLD_LOG_LEVEL: 'warn', ...plan.env, LEASEHOLD_DATACENTER: name },
    });
  let controller = await launch();
  enders.push(() => controller.stop());
  const { url } = controller;
  const api = (role: DatacenterRole): ControllerApi =>
    createControllerClient({ url, token: credentials[role], transport: 'http' }).api;
  if (plan.programs !== undefined) {
    const drone = await startDrone(plan, { droneId, url, token: credentials.drone });
    enders.push(() => drone.stop());
    const isReady = async (): Promise<boolean> =>
      (await api('viewer').drones.get.query({ droneId })).status === 'ready';
    await waitUntil(isReady, { what: `readiness of ${droneId}`, timeoutMs: DRONE_READY_MS_MAX });
  }
  return {
    name,
    url,
    databaseUrl: database.url,
    credentials,
    droneId,
    controller: () => controller,
    api,
    async query<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) {
      const { rows } = await sql.query<Row>(text, [...values]);
      return rows;
    },
    killController: () => controller.kill(),
    async restartController() {
      controller = await launch();
    },
    close,
  };
}

async function credentialsIn(
  databaseUrl: string,
  of: { readonly name: string; readonly folder: string; readonly droneId: string },
): Promise<Credentials> {
  const store = openStore({
    databaseUrl,
    datacenter: of.name,
    clock: createBootClock(),
    ids: systemIds(),
  });
  try {
    const file = path.join(of.folder, 'credentials.json');
    return await bootstrapCredentials(store, file, { droneIds: [of.droneId] });
  } finally {
    await store.close();
  }
}

function startDrone(
  { name, folder, programs, backendPorts, entries }: DatacenterPlan,
  of: { readonly droneId: string; readonly url: string; readonly token: string },
): Promise<DroneProcess> {
  return startDroneProcess({
    droneId: of.droneId,
    home: folder,
    controllerUrls: [of.url],
    token: of.token,
    env: { LEASEHOLD_DATACENTER: name },
    ports: backendPorts,
    entry: entries?.drone,
    programs: programs ?? {},
  });
}
