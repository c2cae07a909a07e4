import { startEtcd, type TestEtcd } from '../etcd.ts';
import type { WideArea } from './wide-area.ts';

/** A member in each datacenter; all reach each other through doors on the long lines. */
export async function startEtcdAcross(area: WideArea, names: readonly string[]): Promise<TestEtcd> {
  const nameOfUrl = new Map<string, string>();
  // Every request between members contains the URL by which its sender is known.
  const placeOf = (piece: Buffer): string | undefined => {
    const [, url] = /^x-peerurls: (\S+)\r$/imu.exec(piece.toString('latin1')) ?? [];
    return url === undefined ? undefined : nameOfUrl.get(url);
  };
  return startEtcd({
    membersCount: names.length,
    async peerUrlOf(index, listen) {
      const name = names[index] ?? '';
      const url = await area.layDoor(name, listen, placeOf);
      nameOfUrl.set(url, name);
      return url;
    },
  });
}
