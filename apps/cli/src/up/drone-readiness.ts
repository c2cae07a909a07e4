import { createControllerClient } from '@leasehold/client';
import { setTimeout as delay } from 'node:timers/promises';
import { refusal } from '../failures/failure.ts';

const READY_TIMEOUT_MS = 30_000;
const POLL_MS = 100;

/** Waits until the controller lists this drone as ready, or as draining. */
export async function untilDroneReady(
  access: { readonly url: string; readonly token: string },
  droneId: string,
): Promise<void> {
  const connection = createControllerClient({ ...access, transport: 'http' });
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  let last = 'has not registered';
  try {
    while (performance.now() < deadlineMs) {
      const page = await connection.api.drones.list.query({});
      const drone = page.items.find((item) => item.droneId === droneId);
      if (drone?.status === 'ready' || drone?.status === 'draining') return;
      if (drone !== undefined) last = `is ${drone.status}`;
      await delay(POLL_MS);
    }
  } finally {
    await connection.close();
  }
  throw refusal(
    'up.start_failed',
    `The drone ${droneId} ${last} after ${String(READY_TIMEOUT_MS / 1_000)} s.`,
    'See drone.log in the logs folder of the home.',
  );
}
