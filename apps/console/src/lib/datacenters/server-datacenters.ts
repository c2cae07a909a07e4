import 'server-only';
import { cache } from 'react';
import type { Outputs } from '../api/api.ts';
import { serverApi } from '../api/server-api.ts';

/** Whether there are several datacenters, asked once for each page; false if that fails. */
export const isSeveralDatacenters = cache(async (): Promise<boolean> => {
  try {
    const api = await serverApi();
    const { items } = (await api.query('datacenters.list', {})) as Outputs['datacenters']['list'];
    return items.length > 1;
  } catch {
    return false;
  }
});
