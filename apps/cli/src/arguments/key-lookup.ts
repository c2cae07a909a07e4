import type { ControllerApi } from '@leasehold/client';
import type { KeyView } from '@leasehold/keys-core/keys';
import { refusal } from '../failures/failure.ts';
import { printable } from '../output/printable.ts';

/** The key of this name. @throws {CliFailure} `key.not_found` when it was never held, or may not be seen. */
export async function findKey(
  client: ControllerApi,
  key: {
    readonly name: string;
    readonly namespace: string;
    readonly datacenter?: string | undefined;
  },
): Promise<KeyView> {
  const view = await client.keys.get.query(key);
  if (view === null) {
    const where = key.namespace === '' ? '' : ` in namespace ${printable(key.namespace)}`;
    throw refusal(
      'key.not_found',
      `There is no key ${printable(key.name)}${where}.`,
      'Names are compared byte for byte, and a key may be in a --namespace. `leasehold keys ls --all` shows all.',
    );
  }
  return view;
}
